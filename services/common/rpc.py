"""gRPC as every process uses it: servers that answer with ServiceErrors, channels, conversion back.

A handler raises a ServiceError; the interceptor turns it into a status and an ErrorDetail in the
trailing metadata, also after messages were streamed. Anything else a handler raises is logged and
answered as Internal with an incident id. A client calls through `unary`, or wraps what it does with
a stream in `errors`, and sees ServiceErrors only.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from services.common.errors import (
    DETAIL_KEY,
    DeadlineExceeded,
    Internal,
    ServiceError,
    WorkerLost,
    from_detail,
)
from services.pb.common_pb2 import ErrorDetail

MESSAGE_BYTES_MAX = 64 << 20
STREAMS_MAX = 4096  # calls open at once on one connection
STOP_SECONDS = 1.0  # for calls that are still open when a server stops
OPTIONS = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_concurrent_streams", STREAMS_MAX),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.so_reuseport", 0),  # two processes on one port is a mistake, not a feature
]
_log = logging.getLogger(__name__)
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is being built: add servicers to `grpc`, then `start`."""

    grpc: grpc.aio.Server
    health: health.aio.HealthServicer
    port: int  # 0 for a Unix socket

    async def start(self, *, serving: bool = True) -> None:
        """Answer calls; `serving` is what the health service says at first."""
        await self.set_serving(serving)
        await self.grpc.start()

    async def set_serving(self, serving: bool) -> None:
        """Readiness, as the health service tells it."""
        status = health_pb2.HealthCheckResponse
        await self.health.set("", status.SERVING if serving else status.NOT_SERVING)


@asynccontextmanager
async def server(address: str) -> AsyncIterator[Server]:
    """A server on `host:port` (0: a free one) or `unix:/path`; stopped at the end of the block.

    Raises OSError when the address cannot be had.
    """
    bare = grpc.aio.server(interceptors=[ErrorInterceptor()], options=OPTIONS)
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, bare)
    try:
        port = bare.add_insecure_port(address)
    except RuntimeError as error:
        reason = str(error).partition(";")[0]  # the rest is advice on gRPC's own logging
        raise OSError(f"cannot listen on {address}: {reason}") from None
    try:
        is_socket = address.startswith("unix:")
        yield Server(grpc=bare, health=servicer, port=0 if is_socket else port)
    finally:
        await bare.stop(STOP_SECONDS)


@asynccontextmanager
async def channel(address: str) -> AsyncIterator[grpc.aio.Channel]:
    """A channel that connects when it is first used and again when it must."""
    async with grpc.aio.insecure_channel(address, options=OPTIONS) as made:
        yield made


async def unary(
    method: Callable[..., Awaitable[R]], request: object, *, deadline_seconds: float
) -> R:
    """Call and wait for the answer. Raises ServiceError."""
    with errors():
        return await method(request, timeout=deadline_seconds)


@contextmanager
def errors() -> Iterator[None]:
    """Whatever a call fails with in this block is raised as a ServiceError."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise service_error(error) from error


def service_error(error: grpc.aio.AioRpcError) -> ServiceError:
    """What a failed call means to its caller."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAIL_KEY and isinstance(value, bytes):
            try:
                return from_detail(ErrorDetail.FromString(value))
            except DecodeError:
                return Internal("the peer's error cannot be read")
    details = error.details() or error.code().name
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded("out of time")
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
        return WorkerLost(f"the connection broke: {details}")
    return Internal(details)


def incident(error: BaseException) -> Internal:
    """Log a fault of ours; what others may know of it is the number in the log."""
    number = uuid.uuid4().hex
    _log.error("incident %s", number, exc_info=error)
    return Internal(f"internal error, incident {number}", incident_id=number)


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Wraps every handler so that what it raises becomes a status."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith("/grpc.health"):
            return handler
        coders = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(_one(handler.unary_unary), **coders)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(_many(handler.unary_stream), **coders)
        assert handler.stream_stream is not None, "no handler streams in and answers once"
        return grpc.stream_stream_rpc_method_handler(_many(handler.stream_stream), **coders)


def _one(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def answer(request: object, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await call(request, context)
        except Exception as error:  # noqa: BLE001 - the outermost frame of a call
            await _abort(context, error)

    return answer


def _many(call: Callable[..., Any]) -> Callable[..., AsyncIterator[Any]]:
    async def answers(
        request: object, context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        try:
            async with aclosing(call(request, context)) as messages:
                async for message in messages:
                    yield message
        except Exception as error:  # noqa: BLE001 - the outermost frame of a call
            await _abort(context, error)

    return answers


async def _abort(context: grpc.aio.ServicerContext[Any, Any], error: Exception) -> None:
    """End the call with the error's status. Raises, as `context.abort` does."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, ServiceError):
        error = incident(error)
    metadata = ((DETAIL_KEY, error.detail().SerializeToString()),)
    await context.abort(error.status, error.message, metadata)
