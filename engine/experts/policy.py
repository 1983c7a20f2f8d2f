"""Which experts deserve a slot: scores that a cache compares. Pure: no clock, no bytes, no torch.

An expert of a layer is a *key*, layer * experts + expert. A policy sees the keys of every step, in
the order of steps, and gives each key a score; a cache keeps the highest. Called by `replay`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Scores = NDArray[np.float64]
NEVER = -1


class Policy(Protocol):
    """Scores of all keys after the steps seen so far.

    always_admits  a missed expert takes a slot even from one with a higher score
    """

    always_admits: bool

    def observe(self, step: int, keys: Keys) -> None:
        """These keys, ascending and each once, were used by step number `step`."""
        ...

    def scores(self, step: int) -> Scores:
        """(keys,) after `step`; the higher, the better to keep."""
        ...


class Lru:
    """The least recently used goes first; within a step, the lower layer."""

    always_admits = True

    def __init__(self, num_keys: int) -> None:
        self._last = np.full(num_keys, NEVER, np.float64)
        self._order = np.arange(num_keys) / num_keys  # later layers of a step are more recent

    def observe(self, step: int, keys: Keys) -> None:
        self._last[keys] = step

    def scores(self, step: int) -> Scores:
        return self._last + self._order


class Lfu:
    """The least often used goes first; of equals, the least recently used."""

    always_admits = True

    def __init__(self, num_keys: int) -> None:
        self._count = np.zeros(num_keys)
        self._recent = Lru(num_keys)

    def observe(self, step: int, keys: Keys) -> None:
        self._count[keys] += 1
        self._recent.observe(step, keys)

    def scores(self, step: int) -> Scores:
        return self._count + self._recent.scores(step) / (step + 2)


class Lfru(Lfu):
    """Frequency over age: uses so far by the steps since the last one."""

    def scores(self, step: int) -> Scores:
        return self._count / (step + 2 - self._recent.scores(step))


class Heat:
    """Expected uses per step: rates of use over several spans of time, mixed.

    A rate with a half-life of h steps is the share of steps that used the key, where a step counts
    half as much as one h steps later. Short half-lives follow a conversation's subject, long ones
    the traffic's. An expert that is expected to be used less than those in slots gets none.
    """

    always_admits = False

    def __init__(self, num_keys: int, spans: tuple[tuple[float, float], ...]) -> None:
        """spans: (half-life in steps, weight) of each rate."""
        half_lives, self._weights = (np.array(column) for column in zip(*spans, strict=True))
        self._decay = 0.5 ** (1 / half_lives)
        self._rates = np.zeros((len(spans), num_keys))
        self._step = NEVER

    def observe(self, step: int, keys: Keys) -> None:
        self._rates *= (self._decay ** (step - self._step))[:, None]
        self._rates[:, keys] += (1 - self._decay)[:, None]
        self._step = step

    def scores(self, step: int) -> Scores:
        weights = self._weights * self._decay ** (step - self._step)
        return weights @ self._rates


class Belady:
    """What is used again soonest stays: the best there can be, and only known afterwards."""

    always_admits = False

    def __init__(self, num_keys: int, steps: list[Keys]) -> None:
        self._next = np.full(num_keys, np.inf)
        following = np.full(num_keys, np.inf)
        self._after: list[Scores] = [np.empty(0)] * len(steps)
        for step in range(len(steps) - 1, -1, -1):
            self._after[step] = following[steps[step]]
            following[steps[step]] = step

    def observe(self, step: int, keys: Keys) -> None:
        self._next[keys] = self._after[step]

    def scores(self, step: int) -> Scores:
        return -self._next


HEAT_SPANS = ((4.0, 1.0), (32.0, 2.0), (512.0, 4.0))
POLICIES: dict[str, Callable[[int], Policy]] = {
    "lru": Lru,
    "lfu": Lfu,
    "lfru": Lfru,
    "heat": lambda num_keys: Heat(num_keys, HEAT_SPANS),
}
