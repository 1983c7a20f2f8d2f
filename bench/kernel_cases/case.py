"""One thing to time, and how to tell that it computes what its reference computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from engine.kernels.ops import Activations

TOLERANCE = {Activations.F32: 1e-4, Activations.INT8: 1e-2}  # of the largest value


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
