"""Grouped-query attention over KV pages, with optional norms on queries and keys."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.gguf.shape import DecoderShape
from engine.kernels import ops
from engine.kernels.ops import RopeStyle
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.layers import Linear, Parts, RMSNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """One layer's attention; x (tokens, hidden) -> (tokens, hidden)."""

    layer: int
    q: Linear
    k: Linear
    v: Linear
    out: Linear
    q_norm: RMSNorm | None
    k_norm: RMSNorm | None
    heads: int
    kv_heads: int
    head_dim: int
    inv_freq: Tensor  # (rope_dims / 2,) float64
    style: RopeStyle

    @classmethod
    def build(
        cls,
        parts: Parts,
        shape: DecoderShape,
        layer: int,
        *,
        inv_freq: Tensor,
        style: RopeStyle,
        head_norms: bool,
    ) -> Attention:
        """Attention of a layer; `head_norms`: queries and keys are normalised per head."""
        blk = f"blk.{layer}"
        return cls(
            layer=layer,
            q=parts.linear(f"{blk}.attn_q"),
            k=parts.linear(f"{blk}.attn_k"),
            v=parts.linear(f"{blk}.attn_v"),
            out=parts.linear(f"{blk}.attn_output"),
            q_norm=parts.norm(f"{blk}.attn_q_norm") if head_norms else None,
            k_norm=parts.norm(f"{blk}.attn_k_norm") if head_norms else None,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            inv_freq=inv_freq,
            style=style,
        )

    def __call__(self, x: Tensor, places: StepPlaces, memory: SequenceMemory) -> Tensor:
        tokens = x.shape[0]
        q = self.q(x).view(tokens, self.heads, self.head_dim)
        k = self.k(x).view(tokens, self.kv_heads, self.head_dim)
        v = self.v(x).view(tokens, self.kv_heads, self.head_dim)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        ops.rope(q, places.positions, self.inv_freq, self.style)
        ops.rope(k, places.positions, self.inv_freq, self.style)
        keys, values = memory.paged("keys", self.layer), memory.paged("values", self.layer)
        ops.store_kv(k, keys, places.slots)
        ops.store_kv(v, values, places.slots)
        mixed = ops.attention(q, keys, values, places.paged, scale=self.head_dim**-0.5)
        return self.out(mixed.view(tokens, self.heads * self.head_dim))
