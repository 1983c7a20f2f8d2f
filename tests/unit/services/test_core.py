"""What the scheduler decides, one decision at a time; tests/sim has them all at once."""

from __future__ import annotations

import pytest

from helpers.core_world import CoreWorld, facts, request
from services.scheduler.model import (
    Cancelled,
    Drain,
    GiveUp,
    Reason,
    Refusal,
    RequestKey,
    StepDone,
    WorkerDown,
    WorkerUp,
)


def lengths(world: CoreWorld) -> list[int]:
    return [len(entry.tokens) for entry in world.flying.entries]


def test_prompt_is_computed_in_chunks_and_sampled_at_its_end() -> None:
    world = CoreWorld()
    world.submit(request(1, 20))
    chunks = []
    for _ in range(3):
        chunks += [(e.position, len(e.tokens), e.sample) for e in world.finish_step().entries]
    assert chunks == [(0, 8, False), (8, 8, False), (16, 4, True)]


def test_decoding_comes_before_prefill_within_the_budget() -> None:
    world = CoreWorld()
    world.submit(request(1))
    world.finish_step()
    world.submit(request(2, 20))
    world.finish_step()
    assert lengths(world) == [1, 7]


def test_leftover_budget_goes_to_the_next_in_line() -> None:
    world = CoreWorld()
    world.submit(request(1), request(2), request(3))
    world.finish_step()
    assert lengths(world) == [1, 3, 3]
    assert [start.sampling for start in world.flying.starts] == ["sampling of 2", "sampling of 3"]


def test_prefill_holds_all_its_pages_from_the_first_chunk_on() -> None:
    world = CoreWorld(facts(num_pages=8))
    world.submit(request(1, 20))
    assert len(world.flying.entries[0].new_pages) == 5
    world.finish_step()
    assert not world.flying.entries[0].new_pages


def test_small_request_does_not_overtake_a_large_one() -> None:
    world = CoreWorld(facts(num_pages=8))
    world.submit(request(1, 12), request(2, 20), request(3, 1))
    for _ in range(4):
        world.finish_step()
    assert world.core.num_running == 1
    assert world.core.num_waiting == 2


def test_youngest_is_preempted_and_computed_again_as_it_was() -> None:
    world = CoreWorld(facts(num_pages=5))
    world.submit(request(1, 4, max_tokens=12), request(2, 4, max_tokens=12))
    while not world.core.preemptions:
        world.finish_step()
    first, second = (world.flying.entries[0].sequence, world.flying.releases[0])
    assert first != second
    before = [token for key, token in world.emitted if key == 2]
    while not any(start.sampling == "sampling of 2" for start in world.flying.starts):
        world.finish_step()
    assert world.flying.starts[0].num_prompt_tokens == 4
    computed: list[int] = []
    while len(computed) < 4 + len(before):
        entry = next(e for e in world.flying.entries if e.sequence > second)
        computed += entry.tokens
        world.finish_step()
    assert computed == [1, 2, 3, 4, *before]


def test_preempted_sequence_is_the_next_in_line() -> None:
    world = CoreWorld(facts(num_pages=5))
    world.submit(request(1, 4, max_tokens=12), request(2, 4, max_tokens=12), request(3, 4))
    while not world.finished:
        world.finish_step()
    assert world.core.preemptions
    assert world.flying.starts[0].sampling == "sampling of 2"


def test_restart_does_not_count_as_waiting() -> None:
    world = CoreWorld(facts(num_pages=5))
    world.submit(request(1, 4, max_tokens=12), request(2, 4, max_tokens=12))
    while len(world.finished) < 2:
        world.now += 1.0
        world.finish_step()
    assert world.core.preemptions
    assert [f.usage.queue_seconds for f in world.finished] == [0.0, 1.0]


def test_admission_leaves_a_page_for_those_who_run() -> None:
    world = CoreWorld(facts(num_pages=3))
    world.submit(request(1, 2, max_tokens=4), request(2, 8, max_tokens=1))
    world.finish_step()
    assert world.core.num_waiting == 1


def test_alone_a_request_may_take_the_last_page() -> None:
    world = CoreWorld(facts(num_pages=3))
    world.submit(request(1, 12 - 1, max_tokens=1))
    assert world.core.num_running == 1
    assert world.core.page_usage == 1.0


def test_no_more_run_than_a_step_has_tokens() -> None:
    world = CoreWorld(facts(step_tokens_max=2, sequences_max=4))
    world.submit(request(1, 1), request(2, 1), request(3, 1))
    for _ in range(4):
        world.finish_step()
        assert lengths(world) == [1, 1]


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "param"),
    [(0, 1, "prompt_tokens"), (3, 0, "max_tokens"), (60, 5, "max_tokens"), (40, 9, "max_tokens")],
)
def test_request_that_cannot_run_is_refused(prompt: int, max_tokens: int, param: str) -> None:
    world = CoreWorld(facts(num_pages=12))
    world.submit(request(1, prompt, max_tokens=max_tokens))
    assert [(r.refusal, r.param) for r in world.refused] == [(Refusal.INVALID, param)]
    assert world.core.is_idle


def test_token_outside_the_vocabulary_is_refused() -> None:
    world = CoreWorld()
    world.submit(request(1, [99]), request(2, [100]))
    assert [(r.key, r.param) for r in world.refused] == [(2, "prompt_tokens")]


def test_full_queue_refuses_until_somebody_leaves() -> None:
    world = CoreWorld(facts(sequences_max=1), queue_requests_max=1)
    world.submit(request(1), request(2), request(3))
    assert [(r.key, r.refusal) for r in world.refused] == [(3, Refusal.OVERLOADED)]
    world.post(Cancelled(key=RequestKey(2)))
    world.submit(request(4))
    assert len(world.refused) == 1


def retry_after_ms(world: CoreWorld) -> int:
    world.submit(request(98), request(99))
    return world.refused[-1].retry_after_ms


def test_retry_after_follows_the_measured_rate() -> None:
    world = CoreWorld(facts(sequences_max=1), queue_requests_max=1)
    world.submit(request(1, max_tokens=1), request(2, max_tokens=1))
    for key in range(3, 40):
        world.now += 4.0
        world.finish_step()
        world.submit(request(key, max_tokens=1))
    assert 3800 < retry_after_ms(world) <= 4000


def test_retry_after_does_not_count_idle_hours() -> None:
    world = CoreWorld(facts(sequences_max=1), queue_requests_max=1)
    for key in range(1, 4):
        world.submit(request(key, max_tokens=1))
        world.finish_step()
        world.now += 3600.0
    world.submit(request(4))
    assert retry_after_ms(world) == 500


def test_stop_token_is_sent_and_ends_the_request() -> None:
    world = CoreWorld()
    world.submit(request(1, stop_tokens=[7]))
    world.finish_step(token=50)
    world.finish_step(token=7)
    assert world.emitted == [(1, 50), (1, 7)]
    assert [(f.key, f.reason) for f in world.finished] == [(1, Reason.STOP)]
    assert world.finished[0].usage.completion_tokens == 2


def test_last_token_that_may_be_generated_ends_the_request() -> None:
    world = CoreWorld()
    world.submit(request(1, max_tokens=2))
    world.finish_step()
    world.finish_step()
    assert [f.reason for f in world.finished] == [Reason.LENGTH]
    assert world.flying.releases == (1,)
    assert not world.flying.entries


def test_cancelled_request_gets_no_token_and_is_released_in_the_next_step() -> None:
    world = CoreWorld()
    world.submit(request(1), request(2))
    world.finish_step()
    world.post(Cancelled(key=RequestKey(1)))
    world.finish_step()
    assert [key for key, _ in world.emitted] == [1, 2]
    assert world.flying.releases == (1,)
    assert [entry.sequence for entry in world.flying.entries] == [2]


def test_times_of_a_request_add_up() -> None:
    world = CoreWorld(facts(sequences_max=1))
    world.submit(request(1, max_tokens=1), request(2, max_tokens=2))
    for _ in range(3):
        world.now += 10.0
        world.finish_step()
    usage = world.finished[1].usage
    assert (usage.queue_seconds, usage.prefill_seconds, usage.decode_seconds) == (10.0, 10.0, 10.0)


def test_lost_worker_ends_everything_and_says_what_never_began() -> None:
    world = CoreWorld(facts(sequences_max=1))
    world.submit(request(1), request(2))
    world.post(WorkerDown())
    ends = [(r.key, r.refusal, r.began) for r in world.refused]
    assert ends == [(1, Refusal.WORKER_LOST, True), (2, Refusal.NOT_READY, False)]
    assert world.core.is_idle


def test_next_worker_starts_empty() -> None:
    world = CoreWorld()
    world.submit(request(1))
    world.post(WorkerDown())
    world.step = None
    world.submit(request(2))
    assert world.refused[-1].refusal is Refusal.NOT_READY
    world.post(WorkerUp(facts=facts(num_pages=3)))
    assert world.core.page_usage == 0.0
    world.submit(request(3))
    assert not world.flying.releases


def test_drain_refuses_new_requests_and_finishes_old_ones() -> None:
    world = CoreWorld()
    world.submit(request(1, max_tokens=1))
    world.post(Drain())
    world.submit(request(2))
    world.finish_step()
    assert [(r.key, r.refusal) for r in world.refused] == [(2, Refusal.DRAINING)]
    assert [f.key for f in world.finished] == [1]


def test_giving_up_ends_everything_and_says_what_never_began() -> None:
    world = CoreWorld(facts(sequences_max=1))
    world.submit(request(1), request(2))
    world.post(GiveUp())
    ends = [(r.key, r.refusal, r.began) for r in world.refused]
    assert ends == [(1, Refusal.WORKER_LOST, True), (2, Refusal.DRAINING, False)]
    assert world.core.is_idle
    assert world.core.page_usage == 0.0
    world.finish_step()
    assert world.flying.releases == (1,)
    assert not world.emitted


def test_result_of_another_step_is_a_broken_promise() -> None:
    world = CoreWorld()
    world.submit(request(1))
    with pytest.raises(AssertionError, match="step 7 is done, 1 was sent"):
        world.post(StepDone(step=7))


def test_result_without_its_token_is_a_broken_promise() -> None:
    world = CoreWorld()
    world.submit(request(1))
    with pytest.raises(AssertionError, match="a token is missing"):
        world.post(StepDone(step=1))
