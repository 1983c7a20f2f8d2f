"""The plain version of every op: the oracle of the kernel tests.

Same names and arguments as `engine.kernels.ops`, nothing shared with the native module, float64
between the input and the rounding of the result. Called by tests and by the check that precedes a
benchmark.
"""

from engine.kernels.reference.dense import (
    attention,
    dequantize,
    embedding,
    expert_ffn,
    linear,
    rms_norm,
    rope,
    round_activations,
    router_topk,
    store_kv,
    swiglu,
)

__all__ = [
    "attention",
    "dequantize",
    "embedding",
    "expert_ffn",
    "linear",
    "rms_norm",
    "rope",
    "round_activations",
    "router_topk",
    "store_kv",
    "swiglu",
]
