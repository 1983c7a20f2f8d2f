"""A real Scheduler server without a model: its tokens can be computed by hand.

Used by the gateway's tests, on the test's own event loop. Output token i of a request is
`prompt[(seed + i) % len(prompt)]`, or what `script` says; its log probability is -(1 + i % 4) / 8,
and the runner-up is the next token id, one nat lower.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Self

from services.common import rpc
from services.common.errors import ServiceError
from services.pb import common_pb2, scheduler_pb2, scheduler_pb2_grpc

Script = Callable[[scheduler_pb2.SubmitRequest], Sequence[int]]


def cycle(request: scheduler_pb2.SubmitRequest) -> Iterator[int]:
    """The prompt again and again, from the position that the seed names."""
    position, prompt = request.sampling.seed, request.prompt_tokens
    while True:
        yield prompt[position % len(prompt)]
        position += 1


class FakeScheduler(scheduler_pb2_grpc.SchedulerServicer):
    """Serves Submit and Describe; attributes steer it and record what it saw."""

    def __init__(self, *, vocab_size: int, context_tokens_max: int = 4096) -> None:
        self.address = ""
        self._server: rpc.Server | None = None
        self.vocab_size = vocab_size
        self.context_tokens_max = context_tokens_max
        self.reset()

    def reset(self) -> None:
        """Forget what was seen and what was told."""
        self.script: Script | None = None
        self.refusal: ServiceError | None = None  # raised instead of the first token
        self.failure: ServiceError | None = None  # raised after `hold_after` tokens
        self.failing_index: int | None = None  # only this choice of a request fails; None: all
        self.hold_after: int | None = None  # tokens after which `gate` is waited for
        self.gate = asyncio.Event()
        self.tokens_per_event = 1
        self.requests: list[scheduler_pb2.SubmitRequest] = []
        self.running: set[str] = set()
        self.cancelled: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def serve(cls, *, vocab_size: int, context_tokens_max: int = 4096) -> AsyncIterator[Self]:
        """Listen on a free loopback port, SERVING."""
        fake = cls(vocab_size=vocab_size, context_tokens_max=context_tokens_max)
        async with rpc.server("127.0.0.1:0") as server:
            scheduler_pb2_grpc.add_SchedulerServicer_to_server(fake, server.grpc)
            await server.start()
            fake.address = f"127.0.0.1:{server.port}"
            fake._server = server
            yield fake

    async def set_serving(self, serving: bool) -> None:
        """Change what the health service says."""
        assert self._server is not None, "the server has not been started"
        await self._server.set_serving(serving)

    async def Describe(
        self, _request: scheduler_pb2.DescribeRequest, _context: object
    ) -> scheduler_pb2.Description:
        """Facts of a model that does not exist."""
        return scheduler_pb2.Description(
            model_name="fake",
            architecture="fake",
            vocab_size=self.vocab_size,
            context_tokens_max=self.context_tokens_max,
            sequences_max=64,
            queue_requests_max=64,
        )

    async def Submit(
        self, request: scheduler_pb2.SubmitRequest, _context: object
    ) -> AsyncIterator[scheduler_pb2.SubmitEvent]:
        """The tokens of one request."""
        self.requests.append(request)
        self.running.add(request.request_id)
        try:
            async for event in self._events(request):
                yield event
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.add(request.request_id)
            raise
        finally:
            self.running.discard(request.request_id)

    async def _events(
        self, request: scheduler_pb2.SubmitRequest
    ) -> AsyncIterator[scheduler_pb2.SubmitEvent]:
        if self.refusal is not None:
            raise self.refusal
        tokens, reason = self._output(request)
        batch: list[common_pb2.Token] = []
        for count, token in enumerate(tokens):
            if count == self.hold_after:
                if self.failure is not None and self._fails(request.request_id):
                    raise self.failure
                await self.gate.wait()
            batch.append(_token(token, count, request.sampling))
            if len(batch) == self.tokens_per_event:
                yield scheduler_pb2.SubmitEvent(tokens=batch)
                batch = []
        yield scheduler_pb2.SubmitEvent(
            tokens=batch,
            finish=scheduler_pb2.Finish(
                reason=reason,
                prompt_tokens=len(request.prompt_tokens),
                cached_tokens=len(request.prompt_tokens) // 2,
                completion_tokens=len(tokens),
            ),
        )

    def _fails(self, request_id: str) -> bool:
        return self.failing_index is None or request_id.endswith(f"/{self.failing_index}")

    def _output(
        self, request: scheduler_pb2.SubmitRequest
    ) -> tuple[list[int], scheduler_pb2.FinishReason]:
        source = iter(self.script(request)) if self.script is not None else cycle(request)
        tokens: list[int] = []
        for token in islice(source, request.max_tokens):
            tokens.append(token)
            if token in request.stop_tokens:
                return tokens, scheduler_pb2.FINISH_REASON_STOP
        return tokens, scheduler_pb2.FINISH_REASON_LENGTH


def _token(token: int, position: int, sampling: common_pb2.Sampling) -> common_pb2.Token:
    if not sampling.HasField("logprobs"):
        return common_pb2.Token(id=token)
    logprob = -(1 + position % 4) / 8
    best = [(token, logprob), (token + 1, logprob - 1)][: sampling.logprobs]
    return common_pb2.Token(
        id=token,
        logprob=logprob,
        top=[common_pb2.TopLogprob(token=each, logprob=value) for each, value in best],
    )
