"""The places of a step's tokens: page tables, positions and slots, as tensors.

Built once per step by `engine.step`, then used by every layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from engine.kernels.ops import PagedTokens, Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive new positions of one sequence, the pages they may use, and its state's slot."""

    pages: Sequence[int]
    slot: int
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlaces:
    """Where a step's tokens are read and written.

    paged  what attention reads: page tables, sequence and position of each token
    slots  (tokens,) int64, where each token's key and value go: page * page_tokens + offset
    spans  which tokens are whose, and in which slot the state of each sequence lies
    """

    paged: PagedTokens
    slots: Tensor
    spans: Spans

    @property
    def positions(self) -> Tensor:
        return self.paged.positions


def places(spans: Sequence[Span], page_tokens: int) -> StepPlaces:
    """Lay out the tokens of all spans one after another."""
    pages_max = max(len(span.pages) for span in spans)
    table = np.zeros((len(spans), pages_max), np.int32)
    positions: list[int] = []
    sequence: list[int] = []
    slots: list[int] = []
    for row, span in enumerate(spans):
        table[row, : len(span.pages)] = span.pages
        for at in range(span.first, span.first + span.count):
            positions.append(at)
            sequence.append(row)
            slots.append(span.pages[at // page_tokens] * page_tokens + at % page_tokens)
    return StepPlaces(
        paged=PagedTokens(
            page_table=torch.from_numpy(table),
            sequence=torch.tensor(sequence, dtype=torch.int32),
            positions=torch.tensor(positions, dtype=torch.int32),
        ),
        slots=torch.tensor(slots, dtype=torch.int64),
        spans=Spans(
            offsets=torch.tensor([0, *accumulate(span.count for span in spans)], dtype=torch.int32),
            slots=torch.tensor([span.slot for span in spans], dtype=torch.int32),
        ),
    )
