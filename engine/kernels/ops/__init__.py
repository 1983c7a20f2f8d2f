"""The native operations: the only door to `_native`.

Called by `engine.model` and `engine.experts`. Each op checks shapes, dtypes and layout (ShapeError
names the argument) and hands addresses to C++; `engine.kernels.reference` holds the plain version
of each. All tensors are contiguous CPU float32 unless said otherwise.

**Invariance.** The result for one token has the same bits whatever else is in the call and for any
number of threads: sums have a fixed order; work is split over rows, experts and heads, and over
parts of a token's positions whose ends depend on the token alone.
"""

from engine.kernels.ops.index import pool_index_keys, select_blocks
from engine.kernels.ops.matrix import (
    Activations,
    QuantMatrix,
    dequantize,
    embedding,
    expert_ffn,
    gated_ffn,
    linear,
    linears,
)
from engine.kernels.ops.paged import (
    PagedTokens,
    Selection,
    attention,
    attention_inputs,
    store_kv,
)
from engine.kernels.ops.record import Program, Scratch
from engine.kernels.ops.recurrent import (
    causal_conv,
    delta_rule,
)
from engine.kernels.ops.rows import RopeStyle, rms_norm, rope, router_topk, swiglu
from engine.kernels.ops.settings import (
    keep_freed_memory,
    num_threads,
    set_num_threads,
    set_variant,
    variant,
    variants,
)
from engine.kernels.ops.spans import Spans
from engine.kernels.ops.streams import (
    gated_add,
    gated_norm,
    mix_streams,
    ngram_gates,
    sigmoid_gate,
)

__all__ = [
    "Activations",
    "PagedTokens",
    "Program",
    "QuantMatrix",
    "RopeStyle",
    "Scratch",
    "Selection",
    "Spans",
    "attention",
    "attention_inputs",
    "causal_conv",
    "delta_rule",
    "dequantize",
    "embedding",
    "expert_ffn",
    "gated_add",
    "gated_ffn",
    "gated_norm",
    "keep_freed_memory",
    "linear",
    "linears",
    "mix_streams",
    "ngram_gates",
    "num_threads",
    "pool_index_keys",
    "rms_norm",
    "rope",
    "router_topk",
    "select_blocks",
    "set_num_threads",
    "set_variant",
    "sigmoid_gate",
    "store_kv",
    "swiglu",
    "variant",
    "variants",
]
