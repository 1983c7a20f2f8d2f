"""The connection to the worker: describe, stream steps, notice loss, connect again.

`run` is a task for the life of the process. It posts WorkerUp, StepDone and WorkerDown; the driver
hands it steps through `send`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import grpc

from services.common import rpc
from services.common.errors import NotReady, StaleLease
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
RECONNECT_SECONDS = 0.2
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

    async def run(self, post: Callable[[Event], None], notice: Callable[[bool], object]) -> None:
        """Connect, serve, and again. `notice` is told when a worker comes and goes.

        Raises StaleLease when another scheduler took the worker over.
        """
        async with rpc.channel(self._address) as channel:
            stub = worker_pb2_grpc.WorkerStub(channel)
            while True:
                try:
                    await self._session(stub, post, notice)
                except grpc.aio.AioRpcError as error:
                    failure = rpc.service_error(error)
                    if isinstance(failure, StaleLease):
                        raise failure from None  # going back would only take the worker from it
                    level = logging.DEBUG if self.description is None else logging.WARNING
                    _log.log(level, "worker %s: %s", self._address, failure)
                if self.description is not None:
                    self.description = None
                    await _maybe(notice(False))
                    post(WorkerDown())
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _session(
        self,
        stub: worker_pb2_grpc.WorkerStub,
        post: Callable[[Event], None],
        notice: Callable[[bool], object],
    ) -> None:
        """From Describe to the end of the stream. Raises AioRpcError."""
        description = await stub.Describe(pb.WorkerDescribeRequest(), timeout=DESCRIBE_SECONDS_MAX)
        # A queue of this stream's own: that of a broken stream may still have a reader and steps.
        self._steps = asyncio.Queue(STEPS_MAX)
        call = stub.Run(_requests(self._steps))
        # The stream stands when its first metadata are here.
        await call.initial_metadata()
        self.description = description
        _log.info("worker %s serves %s", self._address, description.model_name)
        post(WorkerUp(facts=_facts(description)))
        await _maybe(notice(True))
        async for result in call:
            post(_done(result))
        _log.warning("worker %s ended the stream", self._address)


async def _requests(steps: asyncio.Queue[SendStep]) -> AsyncIterator[pb.StepRequest]:
    while True:
        yield _request(await steps.get())


async def _maybe(result: object) -> None:
    if asyncio.iscoroutine(result):
        await result


def _facts(description: pb.WorkerDescription) -> WorkerFacts:
    if not description.num_pages or not description.step_tokens_max:
        raise NotReady("the worker has no room for a sequence")
    return WorkerFacts(
        vocab_size=description.vocab_size,
        context_tokens_max=description.context_tokens_max,
        page_tokens=description.page_tokens,
        num_pages=description.num_pages,
        sequences_max=description.sequences_max,
        step_tokens_max=description.step_tokens_max,
    )


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
