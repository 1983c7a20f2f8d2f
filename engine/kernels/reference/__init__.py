"""The plain version of every op: the oracle of the kernel tests.

Same names and arguments as `engine.kernels.ops`, nothing shared with the native module, float64
between the input and the rounding of the result. Called by tests and by the check that precedes a
benchmark.
"""

from engine.kernels.reference.dense import (
    attention,
    attention_inputs,
    dequantize,
    embedding,
    expert_ffn,
    gated_ffn,
    linear,
    linears,
    rms_norm,
    rope,
    round_activations,
    router_topk,
    store_kv,
    swiglu,
)
from engine.kernels.reference.index import pool_index_keys, select_blocks
from engine.kernels.reference.recurrent import (
    causal_conv,
    delta_rule,
)
from engine.kernels.reference.streams import (
    gated_add,
    gated_norm,
    mix_streams,
    ngram_gates,
    sigmoid_gate,
)

__all__ = [
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
    "linear",
    "linears",
    "mix_streams",
    "ngram_gates",
    "pool_index_keys",
    "rms_norm",
    "rope",
    "round_activations",
    "router_topk",
    "select_blocks",
    "sigmoid_gate",
    "store_kv",
    "swiglu",
]
