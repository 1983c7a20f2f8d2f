"""What decode steps of one size do alike, kept from one to the next.

Pieces of a model are called through `StepPlan.run`. In a decode step, one token to a sequence, the
first call of a piece records its native calls and every later one of a step with as many sequences
runs them again. All such steps share the memory for the streams, the state slots and what lies
between ops, which is why a piece may use nothing else that changes: no page tables, no branches on
values. In any other step `run` just calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor

from engine.kernels.ops import Program, Scratch, Spans
from engine.kv.tables import StepPlaces

SEQUENCES_MAX = 64  # of a step that is kept
Result = TypeVar("Result")


class StepPlan:
    """How one step calls the pieces of a model: here, one after the other, keeping nothing."""

    def places(self, places: StepPlaces) -> StepPlaces:
        """What pieces are to be given as the places of the step's tokens."""
        return places

    def streams(self, embedded: Tensor, streams: int) -> Tensor:
        """embedded (tokens, hidden) -> (tokens, streams, hidden), to be changed in place."""
        return embedded[:, None].repeat(1, streams, 1)

    def run(self, name: Hashable, piece: Callable[[], Result]) -> Result:
        """piece(), whose results are good until the next piece is run."""
        return piece()

    def keep(self, **values: Tensor) -> Sequence[Tensor]:
        """The same values where a later piece finds them in every step."""
        return tuple(values.values())


class _KeptPlan(StepPlan):
    """One number of sequences; its tensors are the first rows of those all such plans share."""

    def __init__(self, slots: Tensor, offsets: Tensor, h: Tensor, scratch: Scratch) -> None:
        self._slots = slots
        self._offsets = offsets
        self._h = h
        self._scratch = scratch
        self._programs: dict[Hashable, tuple[Program, object]] = {}
        self._kept: dict[str, Tensor] = {}

    def places(self, places: StepPlaces) -> StepPlaces:
        self._slots.copy_(places.spans.slots)
        return replace(places, spans=Spans(offsets=self._offsets, slots=self._slots))

    def streams(self, embedded: Tensor, streams: int) -> Tensor:
        self._h.copy_(embedded[:, None].expand_as(self._h))
        return self._h

    def run(self, name: Hashable, piece: Callable[[], Result]) -> Result:
        if name in self._programs:
            program, result = self._programs[name]
            program()
            return result  # type: ignore[return-value]
        program = Program(self._scratch)
        with program.recording():
            recorded = piece()
        self._programs[name] = program, recorded
        return recorded

    def keep(self, **values: Tensor) -> Sequence[Tensor]:
        for name, value in values.items():
            if name not in self._kept:
                self._kept[name] = torch.empty_like(value)
            self._kept[name].copy_(value)
        return [self._kept[name] for name in values]


class StepPlans:
    """The plans of a model with streams (streams, hidden) per token."""

    def __init__(self, streams: int, hidden: int) -> None:
        self._h = torch.empty(SEQUENCES_MAX, streams, hidden)
        self._slots = torch.empty(SEQUENCES_MAX, dtype=torch.int32)
        self._offsets = torch.arange(SEQUENCES_MAX + 1, dtype=torch.int32)
        self._scratch = Scratch()
        self._kept: dict[int, _KeptPlan] = {}

    def of(self, places: StepPlaces) -> StepPlan:
        """The plan of a step with these places."""
        sequences, tokens = places.spans.slots.numel(), places.positions.numel()
        if sequences != tokens or tokens > SEQUENCES_MAX:
            return StepPlan()
        if (plan := self._kept.get(tokens)) is None:
            plan = self._kept[tokens] = _KeptPlan(
                *(self._slots[:tokens], self._offsets[: tokens + 1], self._h[:tokens]),
                self._scratch,
            )
        return plan
