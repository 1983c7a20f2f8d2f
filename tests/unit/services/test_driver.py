"""Streams between the core and clients: order, slow clients, drain, broken promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from prometheus_client import CollectorRegistry

from helpers.core_world import facts, request
from helpers.eventually import eventually
from services.common.clock import ManualClock
from services.common.errors import DeadlineExceeded, Draining, NotReady, WorkerLost
from services.pb import scheduler_pb2 as pb
from services.pb.common_pb2 import Token
from services.scheduler.core import Core
from services.scheduler.driver import STREAM_TOKENS_MAX, Driver
from services.scheduler.metrics import SchedulerMetrics
from services.scheduler.model import (
    Emit,
    Request,
    RequestKey,
    Sampled,
    SendStep,
    StepDone,
    Submitted,
    WorkerDown,
    WorkerUp,
)

LONG = STREAM_TOKENS_MAX + 100


class Driven:
    """A driver with a worker that answers when it is told to."""

    def __init__(self) -> None:
        self.steps: list[SendStep] = []
        self.registry = CollectorRegistry()
        metrics = SchedulerMetrics(self.registry)
        self.driver = Driver(Core(queue_requests_max=4), ManualClock(), metrics, self.steps.append)
        self.driver.post(WorkerUp(facts=facts(context_tokens_max=4096, num_pages=1024)))

    def submit(self, *, max_tokens: int = 4) -> AsyncGenerator[pb.SubmitEvent]:
        def make(key: RequestKey) -> Request:
            return request(key, max_tokens=max_tokens)

        return self.driver.submit(make)

    def finish_step(self) -> None:
        step = self.steps.pop(0)
        sampled = tuple(
            Sampled(sequence=e.sequence, id=50, token=Token(id=50))
            for e in step.entries
            if e.sample
        )
        self.driver.post(StepDone(step=step.step, sampled=sampled))

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"lamina_scheduler_{name}", labels)


async def read_all(stream: AsyncGenerator[pb.SubmitEvent]) -> list[pb.SubmitEvent]:
    return [event async for event in stream]


async def begin(driven: Driven, *, max_tokens: int = 4) -> AsyncGenerator[pb.SubmitEvent]:
    """A stream whose first token was read."""
    stream = driven.submit(max_tokens=max_tokens)
    first = asyncio.ensure_future(anext(stream))
    await eventually(lambda: driven.steps)
    driven.finish_step()
    await first
    return stream


async def test_stream_is_tokens_and_then_a_finish() -> None:
    driven = Driven()
    stream = await begin(driven, max_tokens=3)
    driven.finish_step()
    driven.finish_step()
    events = await read_all(stream)
    assert sum(len(event.tokens) for event in events) == 2
    assert events[-1].finish.reason == pb.FINISH_REASON_LENGTH
    assert events[-1].finish.completion_tokens == 3
    assert driven.count("requests_finished_total", reason="length") == 1


async def test_tokens_that_waited_leave_in_one_event() -> None:
    driven = Driven()
    stream = await begin(driven, max_tokens=9)
    for _ in range(3):
        driven.finish_step()
    assert len((await anext(stream)).tokens) == 3
    await stream.aclose()


async def test_step_is_sent_before_tokens_are_passed_on() -> None:
    core = Core(queue_requests_max=4)
    core.handle(WorkerUp(facts=facts()), 0.0)
    core.handle(Submitted(request=request(1)), 0.0)
    sampled = Sampled(sequence=1, id=50, token=Token(id=50))
    actions = core.handle(StepDone(step=1, sampled=(sampled,)), 1.0)
    assert [type(action) for action in actions] == [SendStep, Emit]


async def test_client_that_does_not_read_is_cut_off_and_others_go_on() -> None:
    driven = Driven()
    slow = await begin(driven, max_tokens=LONG)
    brisk = driven.submit(max_tokens=LONG)
    reading = asyncio.create_task(read_all(brisk))
    for _ in range(LONG + 2):
        await asyncio.sleep(0)  # the brisk one's turn
        if driven.steps:
            driven.finish_step()
    events = await reading
    assert sum(len(event.tokens) for event in events) == LONG
    with pytest.raises(DeadlineExceeded, match="behind"):
        await read_all(slow)
    assert driven.count("requests_failed_total", reason="slow_client") == 1
    assert driven.count("requests_running") == 0


async def test_closed_stream_is_cancelled() -> None:
    driven = Driven()
    stream = await begin(driven)
    await stream.aclose()
    assert driven.count("requests_failed_total", reason="cancelled") == 1
    assert driven.count("requests_running") == 0


async def test_tokens_sent_before_the_loss_are_delivered_first() -> None:
    driven = Driven()
    stream = await begin(driven)
    driven.finish_step()
    driven.driver.post(WorkerDown())
    assert len((await anext(stream)).tokens) == 1
    with pytest.raises(WorkerLost):
        await anext(stream)
    assert driven.count("requests_failed_total", reason="worker_lost") == 1


async def test_refusals_are_counted_by_reason() -> None:
    driven = Driven()
    driven.driver.post(WorkerDown())
    with pytest.raises(NotReady):
        await read_all(driven.submit())
    assert driven.count("admission_rejections_total", reason="not_ready") == 1


async def test_drain_waits_until_the_last_event_is_read() -> None:
    driven = Driven()
    stream = await begin(driven, max_tokens=2)
    draining = asyncio.create_task(driven.driver.drain(20.0))
    await asyncio.sleep(0)
    with pytest.raises(Draining):
        await read_all(driven.submit())
    driven.finish_step()
    await asyncio.sleep(0)
    assert not draining.done()
    assert [len(event.tokens) for event in await read_all(stream)] == [1]
    assert await draining


async def test_drain_gives_up_in_time() -> None:
    driven = Driven()
    stream = await begin(driven)
    assert not await driven.driver.drain(0.01)
    await stream.aclose()


async def test_broken_promise_is_kept_for_the_process() -> None:
    driven = Driven()
    with pytest.raises(AssertionError, match="not sent"):
        driven.driver.post(StepDone(step=3))
    assert isinstance(driven.driver.failed.exception(), AssertionError)
