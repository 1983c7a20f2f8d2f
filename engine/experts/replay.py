"""Replays the steps of a trace over a cache: what a policy would have had in its slots.

A step is one event: its experts are looked up together, and what it missed may take slots only
afterwards. Replaying expert by expert would count experts that one step uses twice as hits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.experts.policy import Keys, Policy, Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How fast a cache may change."""

    promotions_max: int = 1 << 30  # per round
    round_steps: int = 1  # slots change after every so many steps
    dwell_steps: int = 0  # an expert keeps its slot at least so long


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Sums over the steps of a trace. A step's experts count once, however many tokens use them."""

    steps: int
    hits: int
    misses: int
    promotions: int
    missed_bytes: int  # computed where they lay
    promoted_bytes: int  # copied into slots

    @property
    def hit_ratio(self) -> float:
        """Of the experts that steps used."""
        used = self.hits + self.misses
        return self.hits / used if used else 0.0


def replay(
    steps: Sequence[Keys],
    policy: Policy,
    slots: int,
    key_bytes: NDArray[np.int64],
    limits: Limits = Limits(),
) -> Replayed:
    """A cache of `slots` that is empty at first. key_bytes: (keys,) size of each expert."""
    resident = np.zeros(key_bytes.size, np.bool_)
    since = np.zeros(key_bytes.size, np.int64)
    hits = misses = missed_bytes = promoted = promoted_bytes = 0
    wanted: list[Keys] = []  # missed since slots last changed
    for number, keys in enumerate(steps):
        missed = keys[~resident[keys]]
        hits += keys.size - missed.size
        misses += missed.size
        missed_bytes += int(key_bytes[missed].sum())
        policy.observe(number, keys)
        wanted.append(missed)
        if (number + 1) % limits.round_steps:
            continue
        missed, wanted = np.unique(np.concatenate(wanted)), []
        stays = number - since < limits.dwell_steps
        taken, given_up = changes(policy, policy.scores(number), resident & ~stays, missed, keys,
                                  free=slots - int(np.count_nonzero(resident)),
                                  most=limits.promotions_max)  # fmt: skip
        resident[given_up] = False
        resident[taken] = True
        since[taken] = number
        promoted += taken.size
        promoted_bytes += int(key_bytes[taken].sum())
    return Replayed(
        steps=len(steps), hits=hits, misses=misses, promotions=promoted,
        missed_bytes=missed_bytes, promoted_bytes=promoted_bytes,
    )  # fmt: skip


def changes(
    policy: Policy,
    scores: Scores,
    may_leave: NDArray[np.bool_],
    missed: Keys,
    used: Keys,
    *,
    free: int,
    most: int,
) -> tuple[Keys, Keys]:
    """Keys that take a slot, best first, and those that give one up.

    scores, may_leave  (keys,); may_leave: residents whose slot may be given to another
    missed             keys that steps since the last round used and did not find
    used               keys of the last step
    free               slots that hold nothing
    most               keys that may take a slot
    """
    takers = missed[np.argsort(-scores[missed], kind="stable")][:most]
    leavers = np.flatnonzero(may_leave)
    if policy.always_admits:
        leavers = np.setdiff1d(leavers, used, assume_unique=True)
    leavers = leavers[np.argsort(scores[leavers], kind="stable")]
    swaps = min(max(takers.size - free, 0), leavers.size)
    if (
        not policy.always_admits
    ):  # both are sorted: once the worst of them is better, all behind are
        better = scores[takers[free : free + swaps]] > scores[leavers[:swaps]]
        swaps = int(np.count_nonzero(better))
    return takers[: free + swaps], leavers[:swaps]
