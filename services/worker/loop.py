"""The step loop: one thread owns the engine, everything else talks to it through here.

The thread is made once and lives as long as the process, because native code and torch keep state
per thread. Calls queue up behind each other; there is one caller, the Run stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

from engine.api import Engine, StepRequest, StepResult
from engine.errors import EngineError


class StepLoop:
    """An engine and its thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engine")
        self._engine: Engine | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[StepLoop]:
        """The thread is up; the engine comes with `load`."""
        loop = cls()
        try:
            yield loop
        finally:
            await loop._close()

    @property
    def engine(self) -> Engine | None:
        """The engine once it is loaded; only its `facts` may be read from other threads."""
        return self._engine

    async def load(self, make: Callable[[], Engine]) -> Engine:
        """Make the engine in its thread. Raises what `make` raises."""
        self._engine = await asyncio.get_running_loop().run_in_executor(self._thread, make)
        return self._engine

    async def step(self, request: StepRequest) -> StepResult:
        """Run a step. Raises EngineError for a request that does not fit.

        Anything else the engine raises is a fault that leaves it in an unknown state: `failed`
        carries it, and the process ends.
        """
        assert self._engine is not None, "a step before the engine was loaded"
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._engine.step, request)
        except EngineError:
            raise
        except Exception as error:
            if not self.failed.done():
                self.failed.set_exception(error)
            raise

    async def reset(self) -> None:
        """Release every sequence."""
        assert self._engine is not None
        await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.reset)

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        if self._engine is not None:
            await loop.run_in_executor(self._thread, self._engine.close)
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self.failed.done():
            self.failed.exception()  # it has been seen
        else:
            self.failed.cancel()
