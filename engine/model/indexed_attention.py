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
from engine.model.layers import Linear, Linears, Parts, RMSNorm
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
            q_norm=parts.norm(f"{name}.q_norm"),
            k_norm=parts.norm(f"{name}.k_norm"),
            heads=shape.index_heads,
            ratio=shape.ratios[layer],
            best=shape.index_budget // shape.ratios[layer],
            inv_freq=inv_freq,
            use=use,
        )

    def __call__(
        self, x: Tensor, key: Tensor, places: StepPlaces, memory: SequenceMemory
    ) -> Selection | None:
        """The blocks each token may see; None when that is all of them for every token.

        x (tokens, hidden), key (tokens, dim) its raw key of the index
        """
        pool = memory.paged("index_keys", self.layer)
        ops.pool_index_keys(
            *(key, self.k_norm.weight, self.k_norm.eps, self.inv_freq, pool),
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
    inputs: Linears  # per head: query, then gate; keys; values; keys of the index, if there is one
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
        inputs = [f"{blk}.attn_q", f"{blk}.attn_k", f"{blk}.attn_v"]
        if sparse:
            inputs.append(f"{blk}.indexer.k_proj")
        return cls(
            layer=layer,
            inputs=parts.linears(*inputs),
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
        return self.finish(*self.attend(self.inputs(x), x, places, memory))

    def attend(
        self, inputs: list[Tensor], x: Tensor, places: StepPlaces, memory: SequenceMemory
    ) -> tuple[Tensor, Tensor]:
        """What each head found (tokens, heads * head_dim), and the logits of its gate."""
        both, k, v, *index_key = inputs
        tokens = x.shape[0]
        keys, values = memory.paged("keys", self.layer), memory.paged("values", self.layer)
        q, gate = ops.attention_inputs(
            both.view(tokens, self.heads, 2, -1),
            k.view(tokens, self.kv_heads, -1),
            v.view(tokens, self.kv_heads, -1),
            self.q_norm.weight,
            self.k_norm.weight,
            self.q_norm.eps,
            *(self.inv_freq, places.positions, places.slots, keys, values),
        )
        selection = self.index(x, index_key[0], places, memory) if self.index else None
        if selection is not None:
            self.probe("index_blocks", self.layer, selection.blocks)
        mixed = ops.attention(
            q, keys, values, places.paged, scale=q.shape[-1] ** -0.5, selection=selection
        )
        return mixed.view(tokens, -1), gate

    def finish(self, mixed: Tensor, gate: Tensor) -> Tensor:
        """(tokens, hidden); `mixed` is changed."""
        ops.sigmoid_gate(mixed, gate)
        return self.out(mixed)
