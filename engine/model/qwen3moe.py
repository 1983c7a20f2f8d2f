"""Architecture `qwen3moe`: the Qwen3-30B-A3B family.

RMSNorm, grouped-query attention whose queries and keys are normalised per head before the rotary
positions (which turn the two halves of a head), and in every layer a mixture of SwiGLU experts.
Source: Qwen3MoeForCausalLM in transformers 5.24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.experts.store import ExpertStore, MappedExperts
from engine.gguf.shape import DecoderShape
from engine.kernels import ops
from engine.kernels.ops import Activations, QuantMatrix, RopeStyle
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.attention import Attention
from engine.model.layers import Linear, Parts, RMSNorm, scaled_frequencies
from engine.model.loader import Weights
from engine.model.moe import MoE, layer_experts
from engine.model.probe import Probe


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
    probe: Probe
    draft: None = None
    index_use: None = None
    ngram_table: None = None

    @classmethod
    def build(cls, shape: DecoderShape, weights: Weights, activations: Activations) -> Qwen3MoE:
        """Parameters are views of the mapped file."""
        parts = Parts(shape, weights, activations)
        inv_freq = scaled_frequencies(shape, weights)
        stacks = [layer_experts(weights, index) for index in range(shape.layers)]
        experts = MappedExperts(stacks, activations)

        def layer(index: int) -> _Layer:
            blk = f"blk.{index}"
            return _Layer(
                attn_norm=parts.norm(f"{blk}.attn_norm"),
                attention=Attention.build(
                    *(parts, shape, index), inv_freq=inv_freq, style=RopeStyle.NEOX, head_norms=True
                ),
                ffn_norm=parts.norm(f"{blk}.ffn_norm"),
                moe=MoE(
                    layer=index,
                    router=parts.router(f"{blk}.ffn_gate_inp"),
                    experts=experts,
                    experts_used=shape.experts_used,
                    probe=parts.probe,
                ),
            )

        return cls(
            embedding=weights.matrix("token_embd"),
            layers=[layer(index) for index in range(shape.layers)],
            norm=parts.norm("output_norm"),
            head=parts.head(),
            experts=experts,
            probe=parts.probe,
        )

    def forward(self, ids: Tensor, places: StepPlaces, memory: SequenceMemory) -> Tensor:
        """ids (tokens,) int64 -> (tokens, hidden), after the last layer, before the final norm."""
        x = ops.embedding(ids, self.embedding)
        for layer in self.layers:
            x = x + layer.attention(layer.attn_norm(x), places, memory)
            x = x + layer.moe(layer.ffn_norm(x))
        return x

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, hidden) -> (rows, vocab)."""
        return self.head(self.norm(x))

    def close(self) -> None:
        """Nothing is this model's own."""
