"""Architecture `llama`: RMSNorm, grouped-query attention, SwiGLU; dense.

Rotary positions turn neighbouring dimensions: GGUF files of this family hold query and key rows in
that order. Source: LlamaForCausalLM in transformers 5.24; convert_hf_to_gguf.py (permute).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.experts.store import ExpertStore
from engine.gguf.shape import DecoderShape
from engine.kernels import ops
from engine.kernels.ops import Activations, QuantMatrix, RopeStyle
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.attention import Attention
from engine.model.layers import DenseFFN, Linear, Parts, RMSNorm, scaled_frequencies
from engine.model.loader import Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    attn_norm: RMSNorm
    attention: Attention
    ffn_norm: RMSNorm
    ffn: DenseFFN


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama:
    """A dense decoder."""

    embedding: QuantMatrix
    layers: Sequence[_Layer]
    norm: RMSNorm
    head: Linear
    experts: ExpertStore | None = None
    draft: None = None
    index_use: None = None
    ngram_table: None = None

    @classmethod
    def build(cls, shape: DecoderShape, weights: Weights, activations: Activations) -> Llama:
        """Parameters are views of the mapped file."""
        parts = Parts(shape, weights, activations)
        inv_freq = scaled_frequencies(shape, weights)

        def layer(index: int) -> _Layer:
            blk = f"blk.{index}"
            return _Layer(
                attn_norm=parts.norm(f"{blk}.attn_norm"),
                attention=Attention.build(
                    *(parts, shape, index),
                    inv_freq=inv_freq,
                    style=RopeStyle.NORM,
                    head_norms=False,
                ),
                ffn_norm=parts.norm(f"{blk}.ffn_norm"),
                ffn=DenseFFN(
                    gate=parts.linear(f"{blk}.ffn_gate"),
                    up=parts.linear(f"{blk}.ffn_up"),
                    down=parts.linear(f"{blk}.ffn_down"),
                ),
            )

        return cls(
            embedding=weights.matrix("token_embd"),
            layers=[layer(index) for index in range(shape.layers)],
            norm=parts.norm("output_norm"),
            head=parts.head(),
        )

    def forward(self, ids: Tensor, places: StepPlaces, memory: SequenceMemory) -> Tensor:
        """ids (tokens,) int64 -> (tokens, hidden), after the last layer, before the final norm."""
        x = ops.embedding(ids, self.embedding)
        for layer in self.layers:
            x = x + layer.attention(layer.attn_norm(x), places, memory)
            x = x + layer.ffn(layer.ffn_norm(x))
        return x

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, hidden) -> (rows, vocab)."""
        return self.head(self.norm(x))

    def close(self) -> None:
        """Nothing is this model's own."""
