"""Which rows of a step belong to which sequence's state; for ops that carry one along."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.errors import ShapeError
from engine.kernels.ops.checks import shaped


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The rows of each sequence of a step, which are consecutive positions, and its state.

    offsets  (sequences + 1,) int32, sequence i has rows offsets[i] .. offsets[i + 1] - 1
    slots    (sequences,) int32, where its state lies; no two are the same

    What was checked once is not checked by every op: nobody changes the tensors meanwhile.
    """

    offsets: Tensor
    slots: Tensor
    passed: set[object] = field(default_factory=set, repr=False, compare=False)


def checked_spans(spans: Spans, tokens: int, num_slots: int) -> int:
    """The number of spans, which must cover all `tokens` and have slots of their own."""
    if (tokens, num_slots) in spans.passed:
        return spans.slots.shape[0]
    (sequences,) = shaped("slots", spans.slots, (None,), torch.int32)
    shaped("offsets", spans.offsets, (sequences + 1,), torch.int32)
    offsets, slots = spans.offsets.tolist(), spans.slots.tolist()
    if offsets != sorted(offsets) or (offsets[0], offsets[-1]) != (0, tokens):
        raise ShapeError(f"offsets: {offsets} do not ascend from 0 to {tokens}")
    if any(not 0 <= slot < num_slots for slot in slots):
        raise ShapeError(f"slots: outside 0..{num_slots - 1}")
    if len(set(slots)) < sequences:
        raise ShapeError("slots: one is given twice")
    spans.passed.add((tokens, num_slots))
    return sequences
