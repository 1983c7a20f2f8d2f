"""The gateway's one RPC peer: the scheduler's facts, whether it serves, and Submit.

Owned by `gateway.Gateway`. A task follows the scheduler's health; while it serves, `facts` says
what model it has, otherwise `facts` is None and requests are refused without asking.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from services.common import rpc
from services.common.errors import ServiceError
from services.pb import scheduler_pb2, scheduler_pb2_grpc

DESCRIBE_SECONDS_MAX = 10.0
RECONNECT_SECONDS = 0.5

_log = logging.getLogger(__name__)


class SchedulerClient:
    """Calls one scheduler. All methods belong to the event loop that opened it."""

    def __init__(self, channel: grpc.aio.Channel, request_seconds_max: float) -> None:
        self._health = health_pb2_grpc.HealthStub(channel)
        self._scheduler = scheduler_pb2_grpc.SchedulerStub(channel)
        self._request_seconds_max = request_seconds_max
        self._facts: scheduler_pb2.Description | None = None

    @classmethod
    @asynccontextmanager
    async def open(cls, address: str, request_seconds_max: float) -> AsyncIterator[SchedulerClient]:
        """Connect in the background; the scheduler need not be up yet."""
        async with rpc.channel(address) as channel:
            client = cls(channel, request_seconds_max)
            watching = asyncio.create_task(client._watch())
            try:
                yield client
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    @property
    def facts(self) -> scheduler_pb2.Description | None:
        """The served model; None while the scheduler does not serve."""
        return self._facts

    async def submit(
        self, request: scheduler_pb2.SubmitRequest
    ) -> AsyncGenerator[scheduler_pb2.SubmitEvent, None]:
        """Run one request; closing the generator cancels it. Raises ServiceError.

        Not tried again here: a refusal is the client's to retry, with what Retry-After says, and
        work that may have begun is not repeated.
        """
        call = self._scheduler.Submit(request, timeout=self._request_seconds_max)
        try:
            with rpc.errors():
                async for event in call:
                    yield event
        finally:
            call.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                with rpc.errors():
                    async for answer in self._health.Watch(  # type: ignore[attr-defined]
                        health_pb2.HealthCheckRequest(), wait_for_ready=True
                    ):
                        await self._notice(answer.status)
            except ServiceError as error:
                _log.info("the scheduler does not answer: %s", error)
            self._facts = None
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _notice(self, status: int) -> None:
        if status != health_pb2.HealthCheckResponse.SERVING:
            self._facts = None
            return
        facts = await rpc.unary(
            self._scheduler.Describe,
            scheduler_pb2.DescribeRequest(),
            deadline_seconds=DESCRIBE_SECONDS_MAX,
        )
        self._facts = facts
        _log.info("the scheduler serves %s", facts.model_name)
