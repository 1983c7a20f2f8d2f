"""The worker's gRPC face: Describe, and Run, one stream of steps.

A step: message → `messages.step_request` → `StepLoop.step` in the engine's thread → metrics →
`messages.step_result` → message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from engine.api import Engine
from engine.errors import EngineError, NumericsError, StorageError
from services.common import lifecycle
from services.common.errors import Draining, Internal, InvalidRequest, NotReady, StaleLease
from services.pb import worker_pb2 as pb
from services.pb import worker_pb2_grpc
from services.worker import messages
from services.worker.loop import StepLoop
from services.worker.metrics import WorkerMetrics
from services.worker.sequences import OpenSequences


class StreamContext(Protocol):
    """What Run needs of its call."""

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None: ...


class WorkerService(worker_pb2_grpc.WorkerServicer):
    """See proto/worker.proto."""

    def __init__(self, loop: StepLoop, metrics: WorkerMetrics) -> None:
        self._loop = loop
        self._metrics = metrics
        self._sequences = OpenSequences()
        self._idle = asyncio.Event()  # no sequence is open
        self._idle.set()
        self._draining = False
        self._ended = asyncio.Event()  # ends the stream that runs now
        self._turn = asyncio.Lock()  # held by the stream that runs now

    async def Describe(
        self, request: pb.WorkerDescribeRequest, context: object
    ) -> pb.WorkerDescription:
        """Raises NotReady while weights load, and Draining."""
        return messages.description(self._ready_engine().facts)

    async def Run(
        self, requests: AsyncIterator[pb.StepRequest], context: StreamContext
    ) -> AsyncIterator[pb.StepResult]:
        """Raises NotReady, InvalidRequest for a step that does not fit, StaleLease when another
        scheduler took over, and Draining when the worker stops."""
        self._ready_engine()
        self._ended.set()
        ended = self._ended = asyncio.Event()
        async with self._turn:
            await context.send_initial_metadata(())
            try:
                async for request in _until(ended, requests):
                    yield await self._step(request)
            finally:
                await asyncio.shield(self._release_all())
        if self._draining:
            raise Draining("the worker is shutting down")
        if ended.is_set():
            raise StaleLease("another scheduler took over this worker")

    async def drain(self, drain_seconds: float) -> bool:
        """Go on until no sequence is open, then end the stream; whether that was so in time."""
        self._draining = True
        try:
            return await lifecycle.happens_within(self._idle, drain_seconds)
        finally:
            self._ended.set()

    def _ready_engine(self) -> Engine:
        if self._draining:
            raise Draining("the worker is shutting down")
        if self._loop.engine is None:
            raise NotReady("the model is loading")
        return self._loop.engine

    async def _step(self, message: pb.StepRequest) -> pb.StepResult:
        request = messages.step_request(message)
        try:
            result = await self._loop.step(request)
        except (NumericsError, StorageError) as error:  # nobody's request is to blame
            raise Internal(f"step {message.step}: {error}") from error
        except EngineError as error:
            raise InvalidRequest(f"step {message.step}: {error}") from error
        self._sequences.follow(request)
        self._metrics.step(result.stats)
        self._note_sequences()
        return messages.step_result(result)

    async def _release_all(self) -> None:
        await self._loop.reset()
        self._sequences.clear()
        self._note_sequences()

    def _note_sequences(self) -> None:
        self._metrics.sequences(len(self._sequences), self._sequences.num_pages)
        if self._sequences:
            self._idle.clear()
        else:
            self._idle.set()


async def _until(
    ended: asyncio.Event, requests: AsyncIterator[pb.StepRequest]
) -> AsyncIterator[pb.StepRequest]:
    """The requests of a stream, up to its end or until `ended` is set."""
    ending = asyncio.ensure_future(ended.wait())
    iterator = aiter(requests)
    coming: asyncio.Future[pb.StepRequest | None] | None = None
    try:
        while not ended.is_set():
            coming = asyncio.ensure_future(anext(iterator, None))
            await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done() or (request := coming.result()) is None:
                return
            yield request
    finally:
        ending.cancel()
        if coming is not None:
            coming.cancel()
