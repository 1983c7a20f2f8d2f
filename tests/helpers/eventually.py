"""Waiting for something to become true, instead of sleeping and hoping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

POLL_SECONDS = 0.01


async def eventually(condition: Callable[[], object], *, deadline_seconds: float = 20.0) -> None:
    """Return as soon as `condition()` is true; AssertionError after the deadline."""
    end = time.monotonic() + deadline_seconds
    while not condition():
        assert time.monotonic() < end, f"not true within {deadline_seconds} s: {condition}"
        await asyncio.sleep(POLL_SECONDS)
