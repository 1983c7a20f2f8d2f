"""The n-gram embedding: rows of a large table, chosen by the last tokens, join the streams.

The rows a step needs follow from token ids alone, so they are asked for before the first layer and
have usually arrived when theirs comes. Source: Qwen4ExpPLE in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.gguf.reader import GGUFModel
from engine.gguf.shape import NgramShape
from engine.gguf.shape.qwen4exp import NGRAM_TABLE
from engine.kernels import ops
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.layers import Linear, Parts
from engine.ngram.hashing import NgramHash
from engine.ngram.table import NgramTable, PendingRows


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramEmbedding:
    """Adds to the streams of one layer, before anything else in it."""

    layer: int
    hash: NgramHash
    table: NgramTable
    key: Linear
    value: Linear
    norm_key: Tensor  # this and the next two (streams, hidden)
    norm_query: Tensor
    norm_conv: Tensor
    conv: Tensor  # (taps, streams * hidden)
    eps: float
    dilation: int

    @classmethod
    def build(
        cls, parts: Parts, shape: NgramShape, streams: int, table: NgramTable
    ) -> NgramEmbedding:
        blk = f"blk.{shape.layer}"

        def norm(name: str) -> Tensor:
            return parts.weights.floats(f"{blk}.ple_norm_{name}.weight").view(streams, -1)

        return cls(
            layer=shape.layer,
            hash=NgramHash(
                multipliers=shape.multipliers,
                offsets=shape.offsets,
                vocab_sizes=shape.vocab_sizes,
                heads_per_ngram=shape.heads_per_ngram,
                end_token=shape.end_token,
            ),
            table=table,
            key=parts.linear(f"{blk}.ple_key"),
            value=parts.linear(f"{blk}.ple_value"),
            norm_key=norm("key"),
            norm_query=norm("query"),
            norm_conv=norm("conv"),
            conv=parts.weights.floats(f"{blk}.ple_conv1d.weight").t().contiguous(),
            eps=parts.rms_eps,
            dilation=shape.dilation,
        )

    def request(self, ids: Tensor, places: StepPlaces, memory: SequenceMemory) -> PendingRows:
        """Ask for the rows of ids (tokens,); the sequences' windows move on."""
        windows = memory.slotted("ngram_window", self.layer).numpy()
        tokens, offsets = ids.numpy(), places.spans.offsets.tolist()
        rows = []
        for index, slot in enumerate(places.spans.slots.tolist()):
            own = tokens[offsets[index] : offsets[index + 1]]
            rows.append(self.hash.rows(windows[slot], own))
            windows[slot] = np.concatenate([windows[slot], own])[-windows.shape[1] :]
        return self.table.request(np.concatenate(rows))

    def add_to(
        self, h: Tensor, pending: PendingRows, places: StepPlaces, memory: SequenceMemory
    ) -> None:
        """Add what the rows say to h (tokens, streams, hidden), in place."""
        tokens, streams, hidden = h.shape
        e = torch.from_numpy(pending.result())
        keys = ops.rms_norm(self.key(e).view(tokens, streams, hidden), self.norm_key, self.eps)
        queries = ops.rms_norm(h, self.norm_query, self.eps)
        gates = ops.ngram_gates(keys, queries)
        added = gates[:, :, None] * self.value(e)[:, None, :]
        x = ops.rms_norm(added, self.norm_conv, self.eps).view(tokens, -1)
        tail = memory.slotted("ngram_tail", self.layer)
        y = ops.causal_conv(x, self.conv, tail, places.spans, dilation=self.dilation)
        h.add_(added).add_(y.view(tokens, streams, hidden))


def open_table(file: GGUFModel) -> NgramTable:
    """The table of a model file, or of the file that came with it."""
    return NgramTable.open(file, NGRAM_TABLE)
