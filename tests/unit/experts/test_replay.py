"""Policies against caches that can be followed by hand, and Belady against every possibility."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engine.experts.policy import POLICIES, Belady, Heat, Keys, Lfru, Lfu, Lru, Policy
from engine.experts.replay import Limits, Replayed, replay

NUM_KEYS = 6


def keys(*ids: int) -> Keys:
    return np.array(ids, np.int64)


def run(policy: Policy, steps: list[Keys], slots: int, limits: Limits | None = None) -> Replayed:
    sizes = np.arange(1, NUM_KEYS + 1)
    return replay(steps, policy, slots, sizes, limits or Limits())


def random_steps(seed: int, count: int, per_step: int = 2) -> list[Keys]:
    random = np.random.default_rng(seed)
    weights = np.arange(1, NUM_KEYS + 1) / sum(range(1, NUM_KEYS + 1))
    return [
        np.sort(random.choice(NUM_KEYS, per_step, replace=False, p=weights)) for _ in range(count)
    ]


def most_hits(steps: list[Keys], slots: int) -> int:
    """By trying every content that slots can have: the best that can be."""
    best = {frozenset[int](): 0}
    for used in (frozenset(step.tolist()) for step in steps):
        after: dict[frozenset[int], int] = {}
        for content, hits in best.items():
            hits += len(content & used)
            known = content | used
            for size in range(min(slots, len(known)) + 1):
                for kept in itertools.combinations(sorted(known), size):
                    now = frozenset(kept)
                    after[now] = max(after.get(now, 0), hits)
        best = after
    return max(best.values())


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_belady_has_as_many_hits_as_can_be(seed: int, slots: int) -> None:
    steps = random_steps(seed, 9)
    assert run(Belady(NUM_KEYS, steps), steps, slots).hits == most_hits(steps, slots)


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_beats_belady(name: str) -> None:
    steps = random_steps(1, 300)
    for slots in (1, 2, 3, 4):
        best = run(Belady(NUM_KEYS, steps), steps, slots)
        assert run(POLICIES[name](NUM_KEYS), steps, slots).hits <= best.hits


@pytest.mark.parametrize("name", POLICIES)
def test_a_cache_for_everything_misses_each_expert_once(name: str) -> None:
    steps = random_steps(2, 50)
    result = run(POLICIES[name](NUM_KEYS), steps, NUM_KEYS)
    assert result.misses == len({int(key) for step in steps for key in step})
    assert result.promotions == result.misses
    assert result.hits + result.misses == sum(step.size for step in steps)


def test_lru_gives_up_the_least_recently_used() -> None:
    steps = [keys(0), keys(1), keys(0), keys(2), keys(0), keys(1)]
    result = run(Lru(NUM_KEYS), steps, 2)
    assert (result.hits, result.misses) == (2, 4)  # 0 stays, 2 takes the place of 1


def test_a_step_does_not_hit_what_it_brought_in_itself() -> None:
    result = run(Lru(NUM_KEYS), [keys(0, 1), keys(0, 1)], 2)
    assert (result.hits, result.misses) == (2, 2)


def test_lfu_keeps_the_most_used() -> None:
    steps = [keys(0), keys(0), keys(1), keys(2), keys(0)]
    result = run(Lfu(NUM_KEYS), steps, 2)
    assert (result.hits, result.misses) == (2, 3)


def test_lfru_forgets_what_was_used_often_long_ago() -> None:
    often_once = [keys(0)] * 3 + [keys(n) for n in (1, 2) * 6]
    assert run(Lfru(NUM_KEYS), often_once, 2).hits > run(Lfu(NUM_KEYS), often_once, 2).hits


def test_heat_does_not_admit_what_is_used_once() -> None:
    steps = [keys(0), keys(1)] * 20 + [keys(2), keys(0), keys(1)]
    heat = run(Heat(NUM_KEYS, ((16.0, 1.0),)), steps, 2)
    assert heat.promotions == 2
    assert heat.misses == 3
    assert run(Lru(NUM_KEYS), steps, 2).misses == 5


def test_rates_of_heat_are_shares_of_steps_that_fade() -> None:
    heat = Heat(NUM_KEYS, ((2.0, 1.0),))
    for step in range(100):
        heat.observe(step, keys(0) if step % 2 else keys(0, 1))
    assert heat.scores(99)[0] == pytest.approx(1)
    assert heat.scores(99)[1] == pytest.approx(1 / 2, abs=0.1)
    assert heat.scores(101)[0] == pytest.approx(1 / 2)
    assert heat.scores(99)[2] == 0


def test_promotions_and_rounds_are_limited() -> None:
    steps = random_steps(3, 100, per_step=3)
    limits = Limits(promotions_max=1, round_steps=4)
    for make in POLICIES.values():
        assert run(make(NUM_KEYS), steps, 3, limits).promotions <= 100 // 4


def test_what_any_step_of_a_round_missed_may_take_a_slot() -> None:
    steps = [keys(0), keys(1), keys(2), keys(3), keys(0, 1, 2, 3)]
    assert run(Lru(NUM_KEYS), steps, 4, Limits(round_steps=4)).hits == 4


def test_an_expert_keeps_its_slot_for_as_long_as_it_dwells() -> None:
    steps = [keys(n % 3) for n in range(60)]
    assert run(Lru(NUM_KEYS), steps, 2).promotions == 60
    dwelling = run(Lru(NUM_KEYS), steps, 2, Limits(dwell_steps=12))
    assert dwelling.promotions <= 12
    assert dwelling.hits > 30


def test_bytes_are_those_of_the_experts() -> None:
    result = run(Lru(NUM_KEYS), [keys(0, 5), keys(5), keys(1)], 2)
    assert result.missed_bytes == 1 + 6 + 2
    assert result.promoted_bytes == 1 + 6 + 2
    assert result.hit_ratio == 1 / 4
