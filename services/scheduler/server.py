"""The scheduler's gRPC face: Submit and Describe.

A request: `Submit` makes a `Request` of the message → `Driver.submit` → core → steps on the worker
link → events back through the request's queue → messages of the stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

from services.common.errors import InvalidRequest, NotReady
from services.pb import scheduler_pb2 as pb
from services.pb import scheduler_pb2_grpc
from services.scheduler.driver import Driver
from services.scheduler.model import Request, RequestKey
from services.scheduler.sampling import check_sampling
from services.scheduler.worker_link import WorkerLink

PROMPT_TOKENS_MAX = 1 << 20
REQUEST_ID_CHARACTERS_MAX = 200


class SchedulerService(scheduler_pb2_grpc.SchedulerServicer):
    """See proto/scheduler.proto."""

    def __init__(self, driver: Driver, link: WorkerLink, queue_requests_max: int) -> None:
        self._driver = driver
        self._link = link
        self._queue_requests_max = queue_requests_max

    async def Describe(self, request: pb.DescribeRequest, context: object) -> pb.Description:
        """Raises NotReady while no worker is connected."""
        worker = self._link.description
        if worker is None:
            raise NotReady("no worker is ready")
        return pb.Description(
            model_name=worker.model_name,
            architecture=worker.architecture,
            vocab_size=worker.vocab_size,
            context_tokens_max=worker.context_tokens_max,
            sequences_max=worker.sequences_max,
            queue_requests_max=self._queue_requests_max,
            experts_per_token=worker.experts_per_token,
            model_experts_per_token=worker.model_experts_per_token,
        )

    async def Submit(
        self, request: pb.SubmitRequest, context: object
    ) -> AsyncIterator[pb.SubmitEvent]:
        """Raises what the core refuses with; see driver.ERRORS."""
        if len(request.prompt_tokens) > PROMPT_TOKENS_MAX:
            raise InvalidRequest("the prompt is too long", param="prompt_tokens")
        name = request.request_id  # logged, so it must be one line
        if len(name) > REQUEST_ID_CHARACTERS_MAX or not name.isprintable():
            raise InvalidRequest("the request id is long or not printable", param="request_id")
        if not request.HasField("sampling"):
            raise InvalidRequest("sampling is missing", param="sampling")
        if self._link.description is not None:  # else the core refuses in its own words
            check_sampling(request.sampling, self._link.description.vocab_size)

        def make(key: RequestKey) -> Request:
            return Request(
                key=key,
                prompt=tuple(request.prompt_tokens),
                max_tokens=request.max_tokens,
                stop_tokens=frozenset(request.stop_tokens),
                sampling=request.sampling,
                request_id=request.request_id,
                attempt=request.attempt,
            )

        async with aclosing(self._driver.submit(make)) as events:
            async for event in events:
                yield event
