"""The engine's thread: order, faults, and an end that waits for nobody."""

from __future__ import annotations

import asyncio
import threading

import pytest

from engine.api import Engine, Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.errors import StepError
from engine.fake import FakeEngine
from helpers.eventually import eventually
from services.worker import loop as step_loop
from services.worker.loop import StepLoop, is_left_behind

START = SequenceStart(sequence=SequenceId(1), sampling=Sampling(), num_prompt_tokens=1)
FIRST = StepRequest(
    step=1,
    starts=(START,),
    entries=(StepEntry(sequence=SequenceId(1), tokens=(1,), position=0, new_pages=(0,)),),
)
EMPTY = StepRequest(step=2)


class Gate:
    """Holds the engine's thread in a step until it is opened; then raises `error`, if any."""

    def __init__(self, error: Exception | None = None) -> None:
        self.entered, self.opened, self.error = threading.Event(), threading.Event(), error

    def __call__(self, request: StepRequest) -> None:
        self.entered.set()
        self.opened.wait()
        if self.error is not None:
            raise self.error


async def test_engine_lives_in_one_thread_of_its_own() -> None:
    threads = []

    def make() -> Engine:
        threads.append(threading.current_thread())
        return FakeEngine(before_step=lambda _: threads.append(threading.current_thread()))

    async with StepLoop.open() as loop:
        await loop.load(make)
        result = await loop.step(FIRST)
    assert len(result.sampled) == 1
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()
    assert not is_left_behind()


async def test_refused_step_leaves_the_engine_alive() -> None:
    async with StepLoop.open() as loop:
        await loop.load(FakeEngine)
        with pytest.raises(StepError):
            await loop.step(StepRequest(step=1, releases=(SequenceId(9),)))
        await loop.step(EMPTY)
        assert not loop.failed.done()


async def test_fault_fails_what_waits_and_what_comes_later() -> None:
    gate = Gate(RuntimeError("a fault"))
    async with StepLoop.open() as loop:
        await loop.load(lambda: FakeEngine(before_step=gate))
        running = asyncio.create_task(loop.step(EMPTY))
        queued = asyncio.create_task(loop.step(EMPTY))
        await eventually(gate.entered.is_set)
        gate.opened.set()
        for task in (running, queued, asyncio.create_task(loop.step(EMPTY))):
            with pytest.raises(RuntimeError, match="a fault"):
                await task
        await loop.reset()
        assert isinstance(loop.failed.exception(), RuntimeError)


async def test_fault_is_noticed_though_nobody_waits_any_more() -> None:
    gate = Gate(RuntimeError("a fault"))
    async with StepLoop.open() as loop:
        await loop.load(lambda: FakeEngine(before_step=gate))
        running = asyncio.create_task(loop.step(EMPTY))
        await eventually(gate.entered.is_set)
        running.cancel()
        gate.opened.set()
        await eventually(loop.failed.done)
        assert isinstance(loop.failed.exception(), RuntimeError)


async def test_failed_load_is_raised_and_the_thread_goes_on() -> None:
    def refuse() -> Engine:
        raise StepError("no such model")

    async with StepLoop.open() as loop:
        with pytest.raises(StepError, match="no such model"):
            await loop.load(refuse)
        await loop.load(FakeEngine)
        await loop.step(FIRST)


async def test_busy_engine_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_loop, "CLOSE_SECONDS", 0.05)
    gate = Gate()
    async with StepLoop.open() as loop:
        await loop.load(lambda: FakeEngine(before_step=gate))
        running = asyncio.create_task(loop.step(EMPTY))
        await eventually(gate.entered.is_set)
        running.cancel()
    assert loop.stopping.is_set()
    assert is_left_behind()
    gate.opened.set()
    await eventually(lambda: not is_left_behind())
