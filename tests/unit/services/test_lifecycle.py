"""How a process learns that it should end."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from services.common import lifecycle
from services.common.clock import ManualClock, RealClock


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_stops(number: signal.Signals) -> None:
    stopped = lifecycle.stop_event()
    os.kill(os.getpid(), number)
    forever = asyncio.get_running_loop().create_future()
    assert await lifecycle.until_stopped(stopped, forever)
    assert not forever.done()


async def test_end_of_something_watched_is_no_signal() -> None:
    async def ends() -> None:
        return None

    assert not await lifecycle.until_stopped(asyncio.Event(), ends())


async def test_failure_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("dead")

    with pytest.raises(ValueError, match="dead"):
        await lifecycle.until_stopped(asyncio.Event(), fails())


async def test_failure_wins_over_a_signal() -> None:
    stopped = asyncio.Event()
    stopped.set()
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    failed.set_exception(ValueError("dead"))
    with pytest.raises(ValueError, match="dead"):
        await lifecycle.until_stopped(stopped, failed)


def test_clocks_go_forward() -> None:
    manual, real = ManualClock(5.0), RealClock()
    manual.advance(1.5)
    assert manual.now() == 6.5
    assert real.now() <= real.now()
    with pytest.raises(AssertionError, match="does not go back"):
        manual.advance(-1.0)
