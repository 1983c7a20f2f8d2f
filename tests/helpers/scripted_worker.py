"""A worker in the test's own process that does what a test says, for tests of the scheduler.

`answers` is called for each step and gives the result, or raises a ServiceError, which
ends the stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc

from services.common import rpc
from services.pb import worker_pb2 as pb
from services.pb import worker_pb2_grpc
from services.pb.common_pb2 import Token

TOKEN = 7  # what every sequence is given


class ScriptedWorker(worker_pb2_grpc.WorkerServicer):
    """See the module."""

    def __init__(
        self, answers: Callable[[pb.StepRequest], pb.StepResult], *, page_tokens: int
    ) -> None:
        self._answers = answers
        self._page_tokens = page_tokens

    async def Describe(
        self, request: pb.WorkerDescribeRequest, context: object
    ) -> pb.WorkerDescription:
        return pb.WorkerDescription(
            model_name="scripted",
            vocab_size=100,
            context_tokens_max=4096,
            page_tokens=self._page_tokens,
            num_pages=256,
            sequences_max=8,
            step_tokens_max=64,
        )

    async def Run(
        self,
        requests: AsyncIterator[pb.StepRequest],
        context: grpc.aio.ServicerContext[pb.StepRequest, pb.StepResult],
    ) -> AsyncIterator[pb.StepResult]:
        await context.send_initial_metadata(())
        async for request in requests:
            yield self._answers(request)


def right_answer(request: pb.StepRequest) -> pb.StepResult:
    """A token for every entry that asks for one."""
    return pb.StepResult(
        step=request.step,
        sampled=[
            pb.SampledToken(sequence=entry.sequence, token=Token(id=TOKEN))
            for entry in request.entries
            if entry.sample
        ],
    )


@asynccontextmanager
async def scripted_worker(
    address: str,
    answers: Callable[[pb.StepRequest], pb.StepResult],
    *,
    page_tokens: int = 16,
) -> AsyncIterator[None]:
    """Serve one at `address`."""
    async with rpc.server(address) as server:
        worker = ScriptedWorker(answers, page_tokens=page_tokens)
        worker_pb2_grpc.add_WorkerServicer_to_server(worker, server.grpc)
        await server.start()
        yield
