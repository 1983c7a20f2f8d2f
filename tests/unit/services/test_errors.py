"""Every error crosses a real gRPC connection and comes out as it went in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common import rpc
from services.common.errors import (
    DETAIL_KEY,
    MESSAGE_BYTES_MAX,
    TABLE,
    DeadlineExceeded,
    Internal,
    InvalidRequest,
    Overloaded,
    ServiceError,
    WorkerLost,
    from_detail,
)
from services.pb import scheduler_pb2 as pb
from services.pb import scheduler_pb2_grpc
from services.pb.common_pb2 import ErrorDetail, Token


class Failing(scheduler_pb2_grpc.SchedulerServicer):
    """Raises what it is told to, after as many messages as it is told to."""

    def __init__(self, error: Exception, messages: int = 0) -> None:
        self.error, self.messages = error, messages

    async def Describe(self, request: pb.DescribeRequest, context: object) -> pb.Description:
        raise self.error

    async def Submit(
        self, request: pb.SubmitRequest, context: object
    ) -> AsyncIterator[pb.SubmitEvent]:
        for _ in range(self.messages):
            yield pb.SubmitEvent(tokens=[Token(id=1)])
        raise self.error


@asynccontextmanager
async def serving(
    service: scheduler_pb2_grpc.SchedulerServicer,
) -> AsyncIterator[scheduler_pb2_grpc.SchedulerStub]:
    async with rpc.server("127.0.0.1:0") as server:
        scheduler_pb2_grpc.add_SchedulerServicer_to_server(service, server.grpc)
        await server.start()
        async with rpc.channel(f"127.0.0.1:{server.port}") as channel:
            yield scheduler_pb2_grpc.SchedulerStub(channel)


async def describe(service: Failing) -> ServiceError:
    async with serving(service) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Describe(pb.DescribeRequest(), timeout=5)
        return rpc.service_error(caught.value)


async def submit(service: Failing) -> tuple[int, ServiceError]:
    received = 0
    async with serving(service) as stub:
        try:
            async for _ in stub.Submit(pb.SubmitRequest(), timeout=5):
                received += 1
        except grpc.aio.AioRpcError as error:
            return received, rpc.service_error(error)
    raise AssertionError("the stream ended well")


def made(kind: type[ServiceError]) -> ServiceError:
    return kind("what happened", param="p", retry_after_ms=7, epoch=3, incident_id="i")


@pytest.mark.parametrize("kind", TABLE.values())
async def test_error_crosses_an_unary_call(kind: type[ServiceError]) -> None:
    error = await describe(Failing(made(kind)))
    assert type(error) is kind
    assert vars(error) == vars(made(kind))


@pytest.mark.parametrize("messages", [0, 2])
@pytest.mark.parametrize("kind", TABLE.values())
async def test_error_crosses_a_stream(kind: type[ServiceError], messages: int) -> None:
    received, error = await submit(Failing(made(kind), messages))
    assert received == messages
    assert type(error) is kind
    assert error.message == "what happened"


@pytest.mark.parametrize("kind", TABLE.values())
def test_detail_says_what_the_class_says(kind: type[ServiceError]) -> None:
    detail = made(kind).detail()
    assert (detail.code, detail.retryable, detail.definite) == (
        *(kind.__name__, kind.retryable, kind.definite),
    )
    assert type(from_detail(detail)) is kind


def test_only_definite_errors_are_retryable() -> None:
    assert all(kind.definite for kind in TABLE.values() if kind.retryable)


def test_unknown_code_is_internal() -> None:
    assert type(from_detail(ErrorDetail(code="FromTheFuture", message="m"))) is Internal


async def test_unexpected_exception_crosses_as_an_incident() -> None:
    error = await describe(Failing(RuntimeError("the secret of the stack")))
    assert type(error) is Internal
    assert error.incident_id in error.message
    assert "secret" not in error.message


async def test_client_sees_service_errors_only() -> None:
    async with serving(Failing(made(Overloaded))) as stub:
        with pytest.raises(Overloaded):
            await rpc.unary(stub.Describe, pb.DescribeRequest(), deadline_seconds=5)
        with pytest.raises(Overloaded), rpc.errors():
            await anext(aiter(stub.Submit(pb.SubmitRequest(), timeout=5)))


async def test_deadline_is_an_error_of_its_own() -> None:
    class Slow(scheduler_pb2_grpc.SchedulerServicer):
        async def Describe(self, request: pb.DescribeRequest, context: object) -> pb.Description:
            await asyncio.Event().wait()
            raise AssertionError("never")

    async with serving(Slow()) as stub:
        with pytest.raises(DeadlineExceeded):
            await rpc.unary(stub.Describe, pb.DescribeRequest(), deadline_seconds=0.05)


@pytest.mark.parametrize("text", ["x" * 100_000, "ß" * 50_000, "🙂" * 20_000, "a\ud800b"])
async def test_any_message_fits_the_metadata(text: str) -> None:
    error = await describe(Failing(InvalidRequest(text, param="p")))
    assert isinstance(error, InvalidRequest)
    assert error.param == "p"
    assert error.message[0] == text[0]
    assert len(error.message.encode()) <= MESSAGE_BYTES_MAX


def test_garbled_detail_is_internal() -> None:
    metadata = grpc.aio.Metadata((DETAIL_KEY, b"\xff\xff"))
    status = grpc.StatusCode.NOT_FOUND
    assert type(rpc.service_error(grpc.aio.AioRpcError(status, metadata, metadata))) is Internal


async def test_health_says_what_it_is_told() -> None:
    async with rpc.server("127.0.0.1:0") as server:
        await server.start(serving=False)
        async with rpc.channel(f"127.0.0.1:{server.port}") as channel:
            check = health_pb2_grpc.HealthStub(channel).Check  # type: ignore[attr-defined]
            request = health_pb2.HealthCheckRequest()
            before = await rpc.unary(check, request, deadline_seconds=5)
            await server.set_serving(True)
            after = await rpc.unary(check, request, deadline_seconds=5)
    states = health_pb2.HealthCheckResponse
    assert [before.status, after.status] == [states.NOT_SERVING, states.SERVING]


async def test_taken_port_is_refused_by_name() -> None:
    async with rpc.server("127.0.0.1:0") as server:
        await server.start()
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{server.port}"):
            async with rpc.server(f"127.0.0.1:{server.port}"):
                pass


async def test_refused_connection_is_a_lost_worker() -> None:
    async with rpc.channel("127.0.0.1:1") as channel:
        stub = scheduler_pb2_grpc.SchedulerStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Describe(pb.DescribeRequest(), timeout=5)
    assert type(rpc.service_error(caught.value)) is WorkerLost
