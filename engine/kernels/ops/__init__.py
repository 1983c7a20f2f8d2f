"""The native operations: the only door to `_native`.

Called by `engine.model` and `engine.experts`. Each op checks shapes, dtypes and layout (ShapeError
names the argument) and hands addresses to C++; `engine.kernels.reference` holds the plain version
of each. All tensors are contiguous CPU float32 unless said otherwise.

**Invariance.** The result for one token has the same bits whatever else is in the call and for any
number of threads: sums have a fixed order, work is split over rows, experts and heads only.
"""

from engine.kernels.ops.matrix import (
    Activations,
    QuantMatrix,
    dequantize,
    embedding,
    expert_ffn,
    linear,
)
from engine.kernels.ops.paged import PagedTokens, attention, store_kv
from engine.kernels.ops.rows import RopeStyle, rms_norm, rope, router_topk, swiglu
from engine.kernels.ops.settings import (
    num_threads,
    set_num_threads,
    set_variant,
    variant,
    variants,
)

__all__ = [
    "Activations",
    "PagedTokens",
    "QuantMatrix",
    "RopeStyle",
    "attention",
    "dequantize",
    "embedding",
    "expert_ffn",
    "linear",
    "num_threads",
    "rms_norm",
    "rope",
    "router_topk",
    "set_num_threads",
    "set_variant",
    "store_kv",
    "swiglu",
    "variant",
    "variants",
]
