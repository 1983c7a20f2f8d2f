"""One thing to time, and how to tell that it computes what its reference computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.kernels.ops import Activations

BUFFER_BYTES = 1 << 30  # larger than the caches, the shared ones of servers included
# Of the largest value.
TOLERANCE = {Activations.F32: 1e-4, Activations.INT8: 1e-2, Activations.INT16: 1e-3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to time. `check` is small enough for the reference and covers the same code."""

    op: str
    name: str
    run: Callable[[], object]
    actual: Callable[[], torch.Tensor]
    expected: Callable[[], torch.Tensor]
    num_bytes: int  # read and written by `run`, each once
    operations: int  # 2 per multiplication and addition; 0 for an op that only moves bytes
    tolerance: float = TOLERANCE[Activations.F32]


def plain(
    op: str,
    name: str,
    run: Callable[[], torch.Tensor],
    expected: Callable[[], torch.Tensor],
    num_bytes: int,
) -> Case:
    """A case bound by memory whose whole result is checked."""
    return Case(
        op=op, name=name, run=run, actual=run, expected=expected, num_bytes=num_bytes, operations=0
    )


def in_place(
    op: str,
    name: str,
    start: torch.Tensor,
    run: Callable[[torch.Tensor], None],
    expected: Callable[[torch.Tensor], None],
    num_bytes: int,
) -> Case:
    """A case bound by memory that changes its first argument; timed over and over on one copy."""

    def changed(change: Callable[[torch.Tensor], None]) -> torch.Tensor:
        copy = start.clone()
        change(copy)
        return copy

    scratch = start.clone()
    return Case(
        op=op,
        name=name,
        run=lambda: run(scratch),
        actual=lambda: changed(run),
        expected=lambda: changed(expected),
        num_bytes=num_bytes,
        operations=0,
    )
