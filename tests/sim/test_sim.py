"""The scheduler's core in simulated worlds, one per seed; see world.py.

To replay a failing seed: `pytest tests/sim -k "crowded and 17"`.
"""

from __future__ import annotations

import pytest
from sim.world import Settings, World, expected_output

from services.scheduler.model import Reason, Refusal

SEEDS = range(40)
CROWDED = Settings(num_pages=20, sequences_max=5)
ROOMY = Settings(num_pages=16 * 20, sequences_max=16, step_tokens_max=64)  # 20 each always fit
UNLUCKY = Settings(loss_share=0.02)
IMPATIENT = Settings(cancel_share=0.8)
NARROW = Settings(step_tokens_max=3, sequences_max=8)  # fewer tokens in a step than sequences
SHORT_QUEUE = Settings(queue_requests_max=2, num_requests=40)
DRAINED = Settings(drain_at=60)
STOPPED = Settings(drain_at=60, give_up_at=70)
WORLDS = {
    "crowded": CROWDED,
    "roomy": ROOMY,
    "unlucky": UNLUCKY,
    "impatient": IMPATIENT,
    "narrow": NARROW,
    "short_queue": SHORT_QUEUE,
    "drained": DRAINED,
    "stopped": STOPPED,
}


def world(name: str, seed: int) -> World:
    made = World(seed, WORLDS[name])
    made.run()
    return made


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", WORLDS)
def test_every_request_ends_once_with_its_own_output(name: str, seed: int) -> None:
    settings = WORLDS[name]
    for outcome in world(name, seed).outcomes.values():
        assert len(outcome.ends) == 1, f"{outcome.request.key} ended {outcome.ends}"
        tokens, reason = expected_output(outcome.request, settings)
        if isinstance(outcome.ends[0], Reason):
            assert (outcome.tokens, outcome.ends[0]) == (tokens, reason)
        else:  # cut short: what was sent is right as far as it goes
            assert outcome.tokens == tokens[: len(outcome.tokens)]


@pytest.mark.parametrize("name", WORLDS)
def test_steps_keep_to_their_budget(name: str) -> None:
    most = [world(name, seed).max_step_tokens for seed in range(10)]
    assert 0 < max(most) <= WORLDS[name].step_tokens_max


@pytest.mark.parametrize("name", WORLDS)
def test_requests_begin_in_order_of_arrival(name: str) -> None:
    for seed in range(10):
        starts = world(name, seed).starts
        assert len(starts) > 5
        assert starts == sorted(starts)


def test_crowded_worlds_preempt() -> None:
    assert sum(world("crowded", seed).core.preemptions for seed in range(20)) > 10


def test_roomy_worlds_do_not_preempt() -> None:
    assert all(world("roomy", seed).core.preemptions == 0 for seed in range(20))


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("short_queue", Refusal.OVERLOADED),
        ("unlucky", Refusal.WORKER_LOST),
        ("unlucky", Refusal.NOT_READY),
        ("drained", Refusal.DRAINING),
        ("stopped", Refusal.DRAINING),
        ("stopped", Refusal.WORKER_LOST),
    ],
)
def test_worlds_meet_what_they_are_for(name: str, refusal: Refusal) -> None:
    worlds = [world(name, seed) for seed in range(10)]
    ends = [end for w in worlds for outcome in w.outcomes.values() for end in outcome.ends]
    assert refusal in ends
    assert Reason.LENGTH in ends
