"""The connection to the worker: describe, stream steps, notice loss, connect again.

`run` is a task for the life of the process. It posts WorkerUp, StepDone and WorkerDown; the driver
hands it steps through `send`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields

from services.common import rpc
from services.common.errors import NotReady, ServiceError, StaleLease, WorkerLost
from services.pb import worker_pb2 as pb
from services.pb import worker_pb2_grpc
from services.pb.common_pb2 import Sampling
from services.scheduler.model import (
    Event,
    Sampled,
    SendStep,
    StepDone,
    WorkerDown,
    WorkerFacts,
    WorkerUp,
)

DESCRIBE_SECONDS_MAX = 5.0
RECONNECT_SECONDS_MIN, RECONNECT_SECONDS_MAX = 0.1, 1.0  # doubled from one attempt to the next
STEPS_MAX = 2  # in flight; the core sends one at a time
_log = logging.getLogger(__name__)


class WorkerLink:
    """Talks to one worker at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._steps: asyncio.Queue[SendStep] = asyncio.Queue(STEPS_MAX)
        self.description: pb.WorkerDescription | None = None  # while connected

    def send(self, step: SendStep) -> None:
        """Queue a step for the worker."""
        self._steps.put_nowait(step)

    async def run(
        self, post: Callable[[Event], None], notice: Callable[[bool], Awaitable[None]]
    ) -> None:
        """Connect, serve, and again. `notice` is told when a worker comes and goes.

        Raises StaleLease when another scheduler took the worker over: going back would only take
        it from the scheduler that has it now.
        """
        wait_seconds, told = RECONNECT_SECONDS_MIN, ""
        async with rpc.channel(self._address) as channel:
            stub = worker_pb2_grpc.WorkerStub(channel)
            while True:
                reason = await self._attempt(stub, post, notice)
                if self.description is not None:
                    self.description = None
                    _log.warning("worker %s is lost: %s", self._address, reason)
                    await notice(False)
                    post(WorkerDown())
                    wait_seconds = RECONNECT_SECONDS_MIN
                elif str(reason) != told:  # once, not at every attempt
                    _log.info("worker %s is not ready: %s", self._address, reason)
                if isinstance(reason, StaleLease):
                    raise reason
                told = str(reason)
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(2 * wait_seconds, RECONNECT_SECONDS_MAX)

    async def _attempt(
        self,
        stub: worker_pb2_grpc.WorkerStub,
        post: Callable[[Event], None],
        notice: Callable[[bool], Awaitable[None]],
    ) -> ServiceError:
        """One session; returns why it ended."""
        try:
            await self._session(stub, post, notice)
        except ServiceError as error:
            return error
        return WorkerLost("it ended the stream")

    async def _session(
        self,
        stub: worker_pb2_grpc.WorkerStub,
        post: Callable[[Event], None],
        notice: Callable[[bool], Awaitable[None]],
    ) -> None:
        """From Describe to the end of the stream. Raises ServiceError."""
        description = await rpc.unary(
            stub.Describe, pb.WorkerDescribeRequest(), deadline_seconds=DESCRIBE_SECONDS_MAX
        )
        facts = _facts(description)
        # A queue of this stream's own: that of a broken stream may still have a reader and steps.
        self._steps = asyncio.Queue(STEPS_MAX)
        with rpc.errors():
            call = stub.Run(_requests(self._steps))  # no deadline: it lives as long as both ends
            # The stream stands when its first metadata are here.
            await call.initial_metadata()
            self.description = description
            _log.info("worker %s serves %s", self._address, description.model_name)
            post(WorkerUp(facts=facts))
            await notice(True)
            async for result in call:
                post(_done(result))


async def _requests(steps: asyncio.Queue[SendStep]) -> AsyncIterator[pb.StepRequest]:
    while True:
        yield _request(await steps.get())


def _facts(description: pb.WorkerDescription) -> WorkerFacts:
    facts = {field.name: getattr(description, field.name) for field in fields(WorkerFacts)}
    for name, value in facts.items():
        if not value:
            raise NotReady(f"the worker has no room for a sequence: {name} is 0")
    return WorkerFacts(**facts)


def _request(step: SendStep) -> pb.StepRequest:
    return pb.StepRequest(
        step=step.step,
        releases=step.releases,
        starts=[
            pb.SequenceStart(
                sequence=start.sequence,
                sampling=_sampling(start.sampling),
                num_prompt_tokens=start.num_prompt_tokens,
            )
            for start in step.starts
        ],
        entries=[
            pb.StepEntry(
                sequence=entry.sequence,
                tokens=entry.tokens,
                position=entry.position,
                new_pages=entry.new_pages,
                sample=entry.sample,
            )
            for entry in step.entries
        ],
    )


def _sampling(value: object) -> Sampling:
    assert isinstance(value, Sampling)
    return value


def _done(result: pb.StepResult) -> StepDone:
    sampled = (
        Sampled(sequence=each.sequence, id=each.token.id, token=each.token)
        for each in result.sampled
    )
    return StepDone(step=result.step, sampled=tuple(sampled))
