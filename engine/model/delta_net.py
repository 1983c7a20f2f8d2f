"""Gated DeltaNet: a convolution over time, then a recurrence with a matrix of state per head.

Source: Qwen4ExpGatedDeltaNet in transformers 5.24; Yang et al., Gated Delta Networks
(arXiv 2412.06464). Value heads lie tiled over key heads, as GGUF files have them.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.gguf.shape import Qwen4ExpShape
from engine.kernels import ops
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.layers import Linear, Linears, Parts, RMSNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """One layer's mixer; x (tokens, hidden) -> (tokens, hidden)."""

    layer: int
    inputs: Linears  # queries, keys and values; gate; beta; alpha
    conv: Tensor  # (taps, channels)
    decay: Tensor  # (value_heads,), negative
    dt_bias: Tensor  # (value_heads,)
    norm: RMSNorm
    out: Linear
    key_heads: int

    @classmethod
    def build(cls, parts: Parts, shape: Qwen4ExpShape, layer: int) -> DeltaNet:
        blk, weights = f"blk.{layer}", parts.weights
        return cls(
            layer=layer,
            inputs=parts.linears(
                *(f"{blk}.attn_qkv", f"{blk}.attn_gate", f"{blk}.ssm_beta", f"{blk}.ssm_alpha")
            ),
            conv=weights.floats(f"{blk}.ssm_conv1d.weight").t().contiguous(),
            decay=weights.floats(f"{blk}.ssm_a"),
            dt_bias=weights.floats(f"{blk}.ssm_dt.bias"),
            norm=parts.norm(f"{blk}.ssm_norm"),
            out=parts.linear(f"{blk}.ssm_out"),
            key_heads=shape.key_heads,
        )

    def __call__(self, x: Tensor, places: StepPlaces, memory: SequenceMemory) -> Tensor:
        tail = memory.slotted("delta_tail", self.layer)
        state = memory.slotted("delta_state", self.layer)
        qkv, gate, beta, alpha = self.inputs(x)
        mixed = ops.delta_rule(
            ops.causal_conv(qkv, self.conv, tail, places.spans),
            *(beta, alpha, self.decay, self.dt_bias, state, places.spans),
            key_heads=self.key_heads,
        )
        return self.out(ops.gated_norm(mixed, self.norm.weight, self.norm.eps, gate))
