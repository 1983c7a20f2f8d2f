"""Gated grouped-query attention that looks at a bounded set of positions, found by an index.

Positions are pooled into blocks. Each token scores the blocks before it with a small attention of
its own (the index) and attends to the best ones and to the unfinished block at its end. Up to the
budget that is everything. Source: Qwen4ExpAttention and its indexer in transformers 5.24.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from torch import Tensor

from engine.gguf.shape import Qwen4ExpShape
from engine.kernels import ops
from engine.kernels.ops import RopeStyle, Selection
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.layers import Linear, Parts, RMSNorm
from engine.model.probe import Probe


@dataclass(slots=True)
class IndexUse:
    """What index scans took since it was last asked for; shared by the layers of a model."""

    seconds: float = 0.0

    def take_seconds(self) -> float:
        """Seconds since the last call."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockIndex:
    """Which blocks each token attends to; pooled keys of finished blocks live in pages."""

    layer: int
    q: Linear
    k: Linear
    q_norm: RMSNorm
    k_norm: RMSNorm
    heads: int
    ratio: int  # positions per block
    best: int  # blocks chosen
    inv_freq: Tensor
    use: IndexUse

    @classmethod
    def build(
        cls, parts: Parts, shape: Qwen4ExpShape, layer: int, inv_freq: Tensor, use: IndexUse
    ) -> BlockIndex:
        name = f"blk.{layer}.indexer"
        return cls(
            layer=layer,
            q=parts.linear(f"{name}.q_proj"),
            k=parts.linear(f"{name}.k_proj"),
            q_norm=parts.norm(f"{name}.q_norm"),
            k_norm=parts.norm(f"{name}.k_norm"),
            heads=shape.index_heads,
            ratio=shape.ratios[layer],
            best=shape.index_budget // shape.ratios[layer],
            inv_freq=inv_freq,
            use=use,
        )

    def __call__(self, x: Tensor, places: StepPlaces, memory: SequenceMemory) -> Selection | None:
        """The blocks each token may see; None when that is all of them for every token."""
        pool = memory.paged("index_keys", self.layer)
        ops.pool_index_keys(
            *(self.k(x), self.k_norm.weight, self.k_norm.eps, self.inv_freq, pool),
            *(memory.slotted("index_partial", self.layer), places.paged, places.spans),
            ratio=self.ratio,
        )
        if (int(places.positions.max()) + 1) // self.ratio <= self.best:
            return None
        began = time.perf_counter()
        q = self.q_norm(self.q(x).view(x.shape[0], self.heads, -1))
        ops.rope(q, places.positions, self.inv_freq, RopeStyle.NEOX)
        blocks = ops.select_blocks(q, pool, places.paged, ratio=self.ratio, best=self.best)
        self.use.seconds += time.perf_counter() - began
        return Selection(blocks=blocks, ratio=self.ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedAttention:
    """One layer's mixer; x (tokens, hidden) -> (tokens, hidden)."""

    layer: int
    q: Linear  # per head: query, then gate
    k: Linear
    v: Linear
    out: Linear
    q_norm: RMSNorm
    k_norm: RMSNorm
    heads: int
    kv_heads: int
    inv_freq: Tensor
    index: BlockIndex | None  # None: every token attends to all before it
    probe: Probe

    @classmethod
    def build(
        cls, parts: Parts, shape: Qwen4ExpShape, layer: int, inv_freq: Tensor, use: IndexUse
    ) -> IndexedAttention:
        blk = f"blk.{layer}"
        sparse = shape.ratios[layer] > 0
        return cls(
            layer=layer,
            q=parts.linear(f"{blk}.attn_q"),
            k=parts.linear(f"{blk}.attn_k"),
            v=parts.linear(f"{blk}.attn_v"),
            out=parts.linear(f"{blk}.attn_output"),
            q_norm=parts.norm(f"{blk}.attn_q_norm"),
            k_norm=parts.norm(f"{blk}.attn_k_norm"),
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            inv_freq=inv_freq,
            probe=parts.probe,
            index=BlockIndex.build(parts, shape, layer, inv_freq, use) if sparse else None,
        )

    def __call__(self, x: Tensor, places: StepPlaces, memory: SequenceMemory) -> Tensor:
        tokens = x.shape[0]
        both = self.q(x).view(tokens, self.heads, 2, -1)
        q = self.q_norm(both[:, :, 0].contiguous())
        k = self.k_norm(self.k(x).view(tokens, self.kv_heads, -1))
        v = self.v(x).view(tokens, self.kv_heads, -1)
        ops.rope(q, places.positions, self.inv_freq, RopeStyle.NEOX)
        ops.rope(k, places.positions, self.inv_freq, RopeStyle.NEOX)
        keys, values = memory.paged("keys", self.layer), memory.paged("values", self.layer)
        ops.store_kv(k, keys, places.slots)
        ops.store_kv(v, values, places.slots)
        selection = self.index(x, places, memory) if self.index is not None else None
        if selection is not None:
            self.probe("index_blocks", self.layer, selection.blocks)
        mixed = ops.attention(
            q, keys, values, places.paged, scale=q.shape[-1] ** -0.5, selection=selection
        )
        ops.sigmoid_gate(mixed, both[:, :, 1].contiguous())
        return self.out(mixed.view(tokens, -1))
