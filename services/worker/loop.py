"""The step loop: one thread owns the engine, everything else talks to it through here.

The thread is made once and lives as long as the process, because native code and torch keep state
per thread. Commands go to it through a bounded queue and are run in order; results come back to the
event loop. What the engine raises, other than an EngineError, leaves it in an unknown state: the
thread ends, `failed` carries the error, and the process is expected to end as well.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.api import Engine, StepRequest, StepResult
from engine.errors import EngineError

THREAD_NAME = "engine"
COMMANDS_MAX = 8  # one stream at a time: a step, the reset of the stream before, and the end
CLOSE_SECONDS = 5.0  # for what the engine is doing when the process stops
T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Command:
    call: Callable[[], Any]
    result: asyncio.Future[Any]


class StepLoop:
    """An engine and its thread. All methods belong to the event loop that opened it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._commands: queue.Queue[_Command | None] = queue.Queue(COMMANDS_MAX)
        # A daemon: the process must be able to end while a load or a step is under way.
        self._thread = threading.Thread(target=self._work, name=THREAD_NAME, daemon=True)
        self._ended = asyncio.Event()
        self._engine: Engine | None = None
        self.stopping = threading.Event()  # for a load, which looks at it now and then
        self.failed: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[StepLoop]:
        """The thread is up; the engine comes with `load`."""
        loop = cls()
        loop._thread.start()
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
        self._engine = await self._run(make)
        return self._engine

    async def step(self, request: StepRequest) -> StepResult:
        """Run a step. Raises EngineError for a request that does not fit."""
        engine = self._engine
        assert engine is not None, "a step before the engine was loaded"
        return await self._run(lambda: engine.step(request))

    async def reset(self) -> None:
        """Release every sequence. Nothing is done on an engine that has failed."""
        if self._engine is not None and not self.failed.done():
            await self._run(self._engine.reset)

    async def _run(self, call: Callable[[], T]) -> T:
        if self.failed.done():
            self.failed.result()
        result: asyncio.Future[T] = self._loop.create_future()
        self._commands.put_nowait(_Command(call, result))
        return await result

    def _work(self) -> None:
        """The thread: run commands in order, until None or a fault."""
        while (command := self._commands.get()) is not None:
            try:
                value = command.call()
            except EngineError as error:
                self._tell(_settle, command.result, None, error)
            except BaseException as error:  # noqa: BLE001 - the outermost frame of the thread
                self._tell(self._fail, command, error)
                break
            else:
                self._tell(_settle, command.result, value, None)
        self._tell(self._ended.set)

    def _tell(self, call: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _fail(self, command: _Command, error: BaseException) -> None:
        """In the event loop: everything that waits for the thread ends with `error`."""
        if not self.failed.done():
            self.failed.set_exception(error)
        waiting: list[_Command | None] = [command]
        while not self._commands.empty():
            waiting.append(self._commands.get_nowait())
        for each in waiting:
            if each is not None:
                _settle(each.result, None, error)

    async def _close(self) -> None:
        self.stopping.set()
        if self._engine is not None and not self.failed.done():
            closed: asyncio.Future[None] = self._loop.create_future()
            self._commands.put_nowait(_Command(self._engine.close, closed))
        self._commands.put_nowait(None)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._ended.wait()
            self._thread.join()  # it has said its last word
        except TimeoutError:
            _log.warning("the engine is busy and is left behind")
        if self.failed.done():
            self.failed.exception()  # it has been seen
        else:
            self.failed.cancel()


def is_left_behind() -> bool:
    """Whether an engine's thread outlived its loop: the process must not wait for it."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())


def _settle(result: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if result.done():  # cancelled by who waited
        return
    if error is None:
        result.set_result(value)
    else:
        result.set_exception(error)
