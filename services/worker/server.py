"""The worker's gRPC face: Describe, and Run, one stream of steps.

A step: message → `messages.step_request` → `StepLoop.step` in the engine's thread → metrics →
`messages.step_result` → message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from engine.errors import EngineError
from services.common.errors import InvalidRequest, NotReady, StaleLease
from services.pb import worker_pb2 as pb
from services.pb import worker_pb2_grpc
from services.worker import messages
from services.worker.loop import StepLoop
from services.worker.metrics import WorkerMetrics


class StreamContext(Protocol):
    """What Run needs of its call."""

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None: ...


class WorkerService(worker_pb2_grpc.WorkerServicer):
    """See proto/worker.proto."""

    def __init__(self, loop: StepLoop, metrics: WorkerMetrics) -> None:
        self._loop = loop
        self._metrics = metrics
        self._superseded = asyncio.Event()  # of the stream that runs now
        self._turn = asyncio.Lock()  # held by the stream that runs now

    async def Describe(
        self, request: pb.WorkerDescribeRequest, context: object
    ) -> pb.WorkerDescription:
        """Raises NotReady while weights load."""
        if self._loop.engine is None:
            raise NotReady("the model is loading")
        return messages.description(self._loop.engine.facts)

    async def Run(
        self, requests: AsyncIterator[pb.StepRequest], context: StreamContext
    ) -> AsyncIterator[pb.StepResult]:
        """Raises NotReady, InvalidRequest for a step that does not fit, StaleLease when another
        scheduler took over."""
        if self._loop.engine is None:
            raise NotReady("the model is loading")
        self._superseded.set()
        superseded = self._superseded = asyncio.Event()
        async with self._turn:
            await context.send_initial_metadata(())
            try:
                async for request in _until(superseded, requests):
                    yield await self._step(request)
            finally:
                await asyncio.shield(self._loop.reset())
        if superseded.is_set():
            raise StaleLease("another scheduler took over this worker")

    async def _step(self, request: pb.StepRequest) -> pb.StepResult:
        try:
            result = await self._loop.step(messages.step_request(request))
        except EngineError as error:
            raise InvalidRequest(f"step {request.step}: {error}") from error
        self._metrics.step(result.stats)
        return messages.step_result(result)


async def _until(
    ended: asyncio.Event, requests: AsyncIterator[pb.StepRequest]
) -> AsyncIterator[pb.StepRequest]:
    """The requests of a stream, up to its end or until `ended` is set."""
    ending = asyncio.ensure_future(ended.wait())
    iterator = aiter(requests)
    try:
        while not ended.is_set():
            coming = asyncio.ensure_future(anext(iterator, None))
            await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                return
            request = coming.result()
            if request is None:
                return
            yield request
    finally:
        ending.cancel()
