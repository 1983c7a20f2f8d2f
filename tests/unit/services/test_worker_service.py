"""The worker's Describe and Run over a real connection, with an engine that can be looked into."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc
import pytest
from prometheus_client import CollectorRegistry

from engine.api import StepRequest
from engine.errors import EngineError, NumericsError, StorageError
from engine.fake import FakeEngine, next_token
from helpers.eventually import eventually
from services.common import rpc
from services.common.errors import Draining, Internal, InvalidRequest, NotReady, StaleLease
from services.pb import worker_pb2 as pb
from services.pb import worker_pb2_grpc
from services.pb.common_pb2 import Sampling
from services.worker.loop import StepLoop
from services.worker.metrics import WorkerMetrics
from services.worker.server import WorkerService


@dataclass(slots=True)
class Worker:
    """A worker that answers, and its insides."""

    loop: StepLoop
    service: WorkerService
    engine: FakeEngine
    stub: worker_pb2_grpc.WorkerStub
    registry: CollectorRegistry
    stack: AsyncExitStack

    async def stream(self) -> Stream:
        """A Run stream; cancelled at the end of the test."""
        stream = Stream(self.stub)
        self.stack.push_async_callback(stream.cancel)
        return stream


class Stream:
    """Steps in, results out."""

    def __init__(self, stub: worker_pb2_grpc.WorkerStub) -> None:
        self._requests: asyncio.Queue[pb.StepRequest | None] = asyncio.Queue()
        self._call = stub.Run(aiter(self._sent()))

    async def _sent(self) -> AsyncIterator[pb.StepRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    async def step(self, request: pb.StepRequest) -> pb.StepResult:
        """Raises ServiceError."""
        self._requests.put_nowait(request)
        with rpc.errors():
            result = await self._call.read()
        assert result is not grpc.aio.EOF, "the stream has ended"
        assert isinstance(result, pb.StepResult)
        return result

    async def end(self) -> None:
        """Half-close, and wait for the worker's end. Raises ServiceError."""
        self._requests.put_nowait(None)
        await self.until_ended()

    async def until_ended(self) -> None:
        with rpc.errors():
            assert await self._call.read() is grpc.aio.EOF

    async def cancel(self) -> None:
        self._call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._call.code()


@asynccontextmanager
async def working(
    *, load: bool = True, before_step: Callable[[StepRequest], None] | None = None
) -> AsyncIterator[Worker]:
    async with AsyncExitStack() as stack:
        loop = await stack.enter_async_context(StepLoop.open())
        server = await stack.enter_async_context(rpc.server("127.0.0.1:0"))
        registry = CollectorRegistry()
        service = WorkerService(loop, WorkerMetrics(registry))
        worker_pb2_grpc.add_WorkerServicer_to_server(service, server.grpc)
        await server.start()
        channel = await stack.enter_async_context(rpc.channel(f"127.0.0.1:{server.port}"))
        engine = FakeEngine(before_step=before_step)
        if load:
            await loop.load(lambda: engine)
        stub = worker_pb2_grpc.WorkerStub(channel)
        streams = await stack.enter_async_context(AsyncExitStack())
        yield Worker(loop, service, engine, stub, registry, streams)


def first_step() -> pb.StepRequest:
    """Opens sequence 1 and computes its prompt of two tokens."""
    entry = pb.StepEntry(sequence=1, tokens=[1, 2], new_pages=[0], sample=True)
    sampling = Sampling(top_p=1, repetition_penalty=1)
    start = pb.SequenceStart(sequence=1, sampling=sampling, num_prompt_tokens=2)
    return pb.StepRequest(step=1, starts=[start], entries=[entry])


async def describe(worker: Worker) -> pb.WorkerDescription:
    description = await rpc.unary(
        worker.stub.Describe, pb.WorkerDescribeRequest(), deadline_seconds=5
    )
    assert isinstance(description, pb.WorkerDescription)
    return description


async def test_describe_gives_the_facts_of_the_engine() -> None:
    async with working() as worker:
        described = await describe(worker)
        facts = worker.engine.facts
    for name in described.DESCRIPTOR.fields_by_name:
        assert getattr(described, name) == getattr(facts, name)


async def test_loading_worker_is_not_ready() -> None:
    async with working(load=False) as worker:
        with pytest.raises(NotReady):
            await describe(worker)
        with pytest.raises(NotReady):
            await (await worker.stream()).step(first_step())


async def test_step_gives_the_engine_s_token() -> None:
    async with working() as worker:
        result = await (await worker.stream()).step(first_step())
    assert result.step == 1
    assert [s.token.id for s in result.sampled] == [
        next_token([1, 2], 0, 1000, num_prompt_tokens=2)
    ]
    assert result.stats.prefill_tokens == 2


async def test_end_of_a_stream_releases_its_sequences() -> None:
    async with working() as worker:
        stream = await worker.stream()
        await stream.step(first_step())
        assert worker.registry.get_sample_value("lamina_worker_kv_pages_used") == 1
        await stream.end()
        assert not worker.engine.open_sequences
        assert worker.registry.get_sample_value("lamina_worker_kv_pages_used") == 0


async def test_cancelled_stream_releases_its_sequences() -> None:
    async with working() as worker:
        stream = await worker.stream()
        await stream.step(first_step())
        await stream.cancel()
        await eventually(lambda: not worker.engine.open_sequences)


async def test_second_stream_ends_the_first_and_starts_empty() -> None:
    async with working() as worker:
        first = await worker.stream()
        await first.step(first_step())
        second = await worker.stream()
        await second.step(first_step())  # would be "open already" without a reset
        with pytest.raises(StaleLease):
            await first.until_ended()


async def test_step_that_does_not_fit_ends_the_stream_and_names_the_step() -> None:
    async with working() as worker:
        stream = await worker.stream()
        with pytest.raises(InvalidRequest, match="step 4: sequence 7 is released but not open"):
            await stream.step(pb.StepRequest(step=4, releases=[7]))
        assert not worker.loop.failed.done()
        await (await worker.stream()).step(first_step())


@pytest.mark.parametrize("kind", [NumericsError, StorageError])
async def test_step_that_failed_half_way_is_nobodys_fault(kind: type[EngineError]) -> None:
    def fail(request: StepRequest) -> None:
        raise kind("sequence 7 and why")

    async with working(before_step=fail) as worker:
        with pytest.raises(Internal, match="step 1: sequence 7 and why"):
            await (await worker.stream()).step(first_step())
        assert not worker.loop.failed.done()


async def test_fault_of_the_engine_ends_the_stream_and_is_kept() -> None:
    def fault(request: StepRequest) -> None:
        raise RuntimeError("a fault")

    async with working(before_step=fault) as worker:
        with pytest.raises(Internal) as caught:
            await (await worker.stream()).step(first_step())
        assert "a fault" not in str(caught.value)
        assert isinstance(worker.loop.failed.exception(), RuntimeError)


async def test_drain_waits_for_open_sequences_and_then_ends_the_stream() -> None:
    async with working() as worker:
        stream = await worker.stream()
        await stream.step(first_step())
        draining = asyncio.create_task(worker.service.drain(20.0))
        await asyncio.sleep(0)
        with pytest.raises(Draining):
            await describe(worker)
        assert not draining.done()
        await stream.step(pb.StepRequest(step=2, releases=[1]))
        assert await draining
        with pytest.raises(Draining):
            await stream.until_ended()


async def test_drain_gives_up_in_time() -> None:
    async with working() as worker:
        await (await worker.stream()).step(first_step())
        assert not await worker.service.drain(0.05)
