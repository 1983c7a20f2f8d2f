"""Time as a value: real in processes, set by hand in tests and simulations."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds on a clock that never goes back."""

    def now(self) -> float: ...


class RealClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()


class ManualClock:
    """Stands still until told to advance."""

    def __init__(self, start_seconds: float = 0.0) -> None:
        self._now = start_seconds

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        assert seconds >= 0, "time does not go back"
        self._now += seconds
