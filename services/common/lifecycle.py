"""How a process ends: signals, readiness, exit codes that say why."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every process."""

    STOPPED = 0  # asked to, and everything was finished
    FAILED = 1  # something of ours died
    REFUSED = 2  # a flag or a file that cannot be used
    DRAIN_TIMED_OUT = 3  # asked to stop, and work was cut off


def stop_event() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT. Belongs to the running loop."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    return stopped


async def happens_within(event: asyncio.Event, limit_seconds: float) -> bool:
    """Wait for `event`, at most so long; whether it came."""
    try:
        async with asyncio.timeout(limit_seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def until_stopped(stopped: asyncio.Event, *failures: Awaitable[object]) -> bool:
    """Wait for a signal, or for one of `failures` to end. True after a signal.

    An exception of a failure is raised here.
    """
    told = asyncio.ensure_future(stopped.wait())
    watched = [asyncio.ensure_future(failure) for failure in failures]
    try:
        done, _ = await asyncio.wait({told, *watched}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
    # All are looked at: asyncio reports an exception that nobody has seen as a fault of its own.
    errors = [error for task in watched if task in done and (error := task.exception())]
    if errors:
        raise errors[0]
    return told in done
