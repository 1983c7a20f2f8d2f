"""The choices of one request, generated side by side.

`app` opens a `Fanout` for each generation request and reads pieces from it. Closing it cancels the
RPCs of choices that have not finished, so a client that leaves frees its sequences within a step.
At most `PIECES_MAX` pieces wait; beyond that the choices stop reading and gRPC's flow control
holds the scheduler back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from services.common.errors import WorkerLost
from services.gateway.choice import Choice
from services.gateway.pieces import Piece, Usage
from services.gateway.responses import WholeChoice
from services.pb import scheduler_pb2

PIECES_MAX = 16

# Opens one Submit call; closing the generator cancels it. Raises ServiceError.
Submit = Callable[[scheduler_pb2.SubmitRequest], AsyncGenerator[scheduler_pb2.SubmitEvent, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One choice to generate: what to ask of the scheduler, and where its events go."""

    choice: Choice
    request: scheduler_pb2.SubmitRequest


class Fanout:
    """Runs choices until each has finished; an asynchronous context manager."""

    def __init__(self, jobs: Sequence[Job], submit: Submit, *, choices_per_prompt: int = 1) -> None:
        self._jobs = jobs
        self._submit = submit
        self._choices_per_prompt = choices_per_prompt
        self._tasks: list[asyncio.Task[None]] = []
        self._pieces: deque[Piece] = deque()
        self._space = asyncio.Semaphore(PIECES_MAX)
        self._arrived = asyncio.Event()
        self._failure: BaseException | None = None
        self._num_open = len(jobs)
        self._usages: dict[int, Usage] = {}

    async def __aenter__(self) -> Self:
        for job in self._jobs:
            task = asyncio.create_task(self._run(job))
            task.add_done_callback(self._notice_end)
            self._tasks.append(task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def finished(self) -> bool:
        """Whether every choice's last piece has been read."""
        return self._num_open == 0

    def fail(self, error: BaseException) -> None:
        """Cancel every choice; readers get the pieces that arrived, and then this error."""
        self._failure = self._failure or error
        self._arrived.set()
        for task in self._tasks:
            task.cancel()

    async def next(self, timeout_seconds: float | None = None) -> Piece | None:
        """The next piece, or None if none came in time. Raises what ended a choice early."""
        assert not self.finished, "no choice is open"
        if not self._arrived.is_set():
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        if not self._pieces:
            assert self._failure is not None, "woken without a piece"
            raise self._failure
        piece = self._pieces.popleft()
        self._space.release()
        if not self._pieces and self._failure is None:
            self._arrived.clear()
        if piece.usage is not None:
            self._num_open -= 1
            self._usages[piece.choice] = piece.usage
        return piece

    def usage(self) -> Usage:
        """Tokens of the finished request; a prompt counts once, whatever its number of choices."""
        assert self.finished, "a choice is still open"
        firsts = [self._usages[i] for i in range(0, len(self._jobs), self._choices_per_prompt)]
        return Usage(
            prompt_tokens=sum(usage.prompt_tokens for usage in firsts),
            cached_tokens=sum(usage.cached_tokens for usage in firsts),
            completion_tokens=sum(usage.completion_tokens for usage in self._usages.values()),
        )

    async def _run(self, job: Job) -> None:
        async with aclosing(self._submit(job.request)) as events:
            async for event in events:
                piece = job.choice.feed(event)
                await self._space.acquire()
                self._pieces.append(piece)
                self._arrived.set()
                if job.choice.finished:
                    return
        raise WorkerLost("the scheduler closed a stream before its last event")

    def _notice_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)


async def collect(fanout: Fanout, see: Callable[[Piece], None]) -> list[WholeChoice]:
    """Every choice of `fanout` to its end; `see` is told of each piece as it comes."""
    pieces: dict[int, list[Piece]] = {}
    while not fanout.finished:
        piece = await fanout.next()
        assert piece is not None, "no time limit was given"
        see(piece)
        pieces.setdefault(piece.choice, []).append(piece)
    return [_whole(pieces[index]) for index in sorted(pieces)]


def _whole(pieces: Sequence[Piece]) -> WholeChoice:
    finish = pieces[-1].finish
    assert finish is not None, "a choice without an end"
    return WholeChoice(
        text="".join(piece.text for piece in pieces),
        scores=tuple(score for piece in pieces for score in piece.scores),
        finish=finish,
    )
