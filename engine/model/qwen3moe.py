"""Architecture `qwen3moe`: the Qwen3-30B-A3B family.

RMSNorm, grouped-query attention whose queries and keys are normalised per head before the rotary
positions (which turn the two halves of a head), and in every layer a mixture of SwiGLU experts.
Source: Qwen3MoeForCausalLM in transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.experts.store import ExpertStore, LayerExperts, MappedExperts
from engine.gguf.shape import ModelShape
from engine.kernels import ops
from engine.kernels.ops import Activations, QuantMatrix, RopeStyle
from engine.kv.pool import KVPool
from engine.kv.tables import StepPlaces
from engine.model.attention import Attention
from engine.model.layers import Linear, RMSNorm, inverse_frequencies
from engine.model.loader import Weights
from engine.model.moe import MoE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    attn_norm: RMSNorm
    attention: Attention
    ffn_norm: RMSNorm
    moe: MoE


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3MoE:
    """A mixture-of-experts decoder."""

    embedding: QuantMatrix
    layers: Sequence[_Layer]
    norm: RMSNorm
    head: Linear
    experts: ExpertStore

    @classmethod
    def build(cls, shape: ModelShape, weights: Weights, activations: Activations) -> Qwen3MoE:
        """Parameters are views of the mapped file."""
        inv_freq = inverse_frequencies(shape, weights)
        stacks = [_layer_experts(weights, f"blk.{index}") for index in range(shape.layers)]
        experts = MappedExperts(stacks, activations)

        def linear(name: str) -> Linear:
            return Linear(weights.matrix(name), activations)

        def norm(name: str) -> RMSNorm:
            return RMSNorm(weights.vector(name), shape.rms_eps)

        def layer(index: int) -> _Layer:
            blk = f"blk.{index}"
            # The router decides which weights run at all: it stays exact in every mode.
            router = Linear(weights.matrix(f"{blk}.ffn_gate_inp"), Activations.F32)
            return _Layer(
                attn_norm=norm(f"{blk}.attn_norm"),
                attention=Attention(
                    layer=index,
                    q=linear(f"{blk}.attn_q"),
                    k=linear(f"{blk}.attn_k"),
                    v=linear(f"{blk}.attn_v"),
                    out=linear(f"{blk}.attn_output"),
                    q_norm=norm(f"{blk}.attn_q_norm"),
                    k_norm=norm(f"{blk}.attn_k_norm"),
                    heads=shape.heads,
                    kv_heads=shape.kv_heads,
                    head_dim=shape.head_dim,
                    inv_freq=inv_freq,
                    style=RopeStyle.NEOX,
                ),
                ffn_norm=norm(f"{blk}.ffn_norm"),
                moe=MoE(
                    layer=index, router=router, experts=experts, experts_used=shape.experts_used
                ),
            )

        return cls(
            embedding=weights.matrix("token_embd"),
            layers=[layer(index) for index in range(shape.layers)],
            norm=norm("output_norm"),
            head=linear("token_embd" if shape.tied_output else "output"),
            experts=experts,
        )

    def forward(self, ids: Tensor, places: StepPlaces, pool: KVPool) -> Tensor:
        """ids (tokens,) int64 -> (tokens, hidden), after the last layer, before the final norm."""
        x = ops.embedding(ids, self.embedding)
        for layer in self.layers:
            x = x + layer.attention(layer.attn_norm(x), places, pool)
            x = x + layer.moe(layer.ffn_norm(x))
        return x

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, hidden) -> (rows, vocab)."""
        return self.head(self.norm(x))


def _layer_experts(weights: Weights, blk: str) -> LayerExperts:
    return LayerExperts(
        gate=weights.matrix(f"{blk}.ffn_gate_exps"),
        up=weights.matrix(f"{blk}.ffn_up_exps"),
        down=weights.matrix(f"{blk}.ffn_down_exps"),
    )
