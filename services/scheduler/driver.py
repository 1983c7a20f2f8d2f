"""Carries out what the core decides: streams to clients, steps to the worker, numbers to metrics.

Lives on the event loop; `post` is called by the gRPC servicer and by the worker link, in one
thread. Tokens wait for a client in a bounded list and leave it together in one event; a client that
does not read its stream is cancelled when the list is full, so that it cannot hold up the others. A
fault of the core ends every stream and sets `failed`, and the process ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from services.common import lifecycle, rpc
from services.common.clock import Clock
from services.common.errors import (
    DeadlineExceeded,
    Draining,
    InvalidRequest,
    NotReady,
    Overloaded,
    ServiceError,
    WorkerLost,
)
from services.pb import scheduler_pb2 as pb
from services.pb.common_pb2 import Token
from services.scheduler.core import Core
from services.scheduler.metrics import SchedulerMetrics
from services.scheduler.model import (
    Action,
    Cancelled,
    Drain,
    Emit,
    Event,
    Finish,
    GiveUp,
    Reason,
    Refusal,
    Refuse,
    Request,
    RequestKey,
    SendStep,
    StepDone,
    Submitted,
    WorkerDown,
    WorkerUp,
)

STREAM_TOKENS_MAX = 1024  # that a client may be behind
REASONS = {Reason.STOP: pb.FINISH_REASON_STOP, Reason.LENGTH: pb.FINISH_REASON_LENGTH}
ERRORS: dict[Refusal, type[ServiceError]] = {
    Refusal.INVALID: InvalidRequest,
    Refusal.OVERLOADED: Overloaded,
    Refusal.NOT_READY: NotReady,
    Refusal.DRAINING: Draining,
    Refusal.WORKER_LOST: WorkerLost,
}
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Stream:
    """What is on its way to one client: tokens, then a finish or an error."""

    request: Request
    tokens: list[Token] = field(default_factory=list)
    ended: bool = False
    finish: pb.Finish | None = None
    error: ServiceError | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, finish: pb.Finish | None, error: ServiceError | None) -> None:
        """Nothing comes after this."""
        self.ended, self.finish, self.error = True, finish, error
        self.changed.set()

    async def next_event(self) -> pb.SubmitEvent | None:
        """All that has come since; None when the stream has ended and all was delivered."""
        while not self.tokens and not self.ended:
            self.changed.clear()
            await self.changed.wait()
        if not self.tokens and self.finish is None:
            return None
        event = pb.SubmitEvent(tokens=self.tokens, finish=self.finish)
        self.tokens, self.finish = [], None
        return event


class Driver:
    """The one owner of a `Core`. `send_step` hands a step to the worker link."""

    def __init__(
        self,
        core: Core,
        clock: Clock,
        metrics: SchedulerMetrics,
        send_step: Callable[[SendStep], None],
    ) -> None:
        self._core = core
        self._clock = clock
        self._metrics = metrics
        self._send_step = send_step
        self._streams: dict[RequestKey, _Stream] = {}
        self._keys = 0
        self._step_sent_at = 0.0
        self._idle = asyncio.Event()
        self._idle.set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def post(self, event: Event) -> None:
        """Let the core know, and do what it says."""
        now = self._clock.now()
        if isinstance(event, StepDone):
            self._metrics.step_seconds.observe(now - self._step_sent_at)
        if isinstance(event, WorkerUp | WorkerDown):
            self._metrics.worker_up.set(isinstance(event, WorkerUp))
        preempted = self._core.preemptions
        try:
            for action in self._core.handle(event, now):
                self._do(action)
        except Exception as error:
            self._fail(error)
            raise
        self._metrics.preemptions.inc(self._core.preemptions - preempted)
        self._metrics.running.set(self._core.num_running)
        self._metrics.waiting.set(self._core.num_waiting)
        self._metrics.kv_usage.set(self._core.page_usage)

    async def submit(self, make: Callable[[RequestKey], Request]) -> AsyncGenerator[pb.SubmitEvent]:
        """Run one request to its end; closing the generator cancels it. Raises ServiceError."""
        self._keys += 1
        key = RequestKey(self._keys)
        stream = self._streams[key] = _Stream(make(key))
        self._idle.clear()
        try:
            self.post(Submitted(request=stream.request))
            while (event := await stream.next_event()) is not None:
                yield event
            if stream.error is not None:
                raise stream.error
        finally:
            del self._streams[key]
            if not self._streams:
                self._idle.set()
            if not stream.ended:
                self._metrics.failed.labels(reason="cancelled").inc()
                self.post(Cancelled(key=key))

    async def drain(self, drain_seconds: float) -> bool:
        """Refuse new requests, wait until the open ones have ended and were read to their end.

        Returns whether that was so in time; if not, they have now ended with an error.
        """
        self.post(Drain())
        drained = await lifecycle.happens_within(self._idle, drain_seconds)
        if not drained:
            self.post(GiveUp())
        return drained

    def _fail(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)
            internal = rpc.incident(error)
            for key in self._streams:
                self._end(key, error=internal)

    def _do(self, action: Action) -> None:
        match action:
            case SendStep():
                self._step_sent_at = self._clock.now()
                self._metrics.step_tokens.observe(sum(len(e.tokens) for e in action.entries))
                self._send_step(action)
            case Emit(key=key, token=token):
                assert isinstance(token, Token)
                self._metrics.generated_tokens.inc()
                self._put(key, token)
            case Finish():
                self._finish(action)
            case Refuse():
                series = self._metrics.failed if action.began else self._metrics.rejections
                series.labels(reason=action.refusal.value).inc()
                kind = ERRORS[action.refusal]
                error = kind(
                    action.message, param=action.param, retry_after_ms=action.retry_after_ms
                )
                self._end(action.key, error=error)

    def _finish(self, finish: Finish) -> None:
        usage = finish.usage
        self._metrics.finished.labels(reason=finish.reason.value).inc()
        self._metrics.prompt_tokens.inc(usage.prompt_tokens)
        self._metrics.queue_seconds.observe(usage.queue_seconds)
        self._metrics.prefill_seconds.observe(usage.prefill_seconds)
        self._metrics.decode_seconds.observe(usage.decode_seconds)
        message = pb.Finish(
            reason=REASONS[finish.reason],
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            queue_seconds=usage.queue_seconds,
            prefill_seconds=usage.prefill_seconds,
            decode_seconds=usage.decode_seconds,
        )
        self._end(finish.key, finish=message)

    def _put(self, key: RequestKey, token: Token) -> None:
        stream = self._streams.get(key)
        if stream is None or stream.ended:
            return
        if len(stream.tokens) < STREAM_TOKENS_MAX:
            stream.tokens.append(token)
            stream.changed.set()
            return
        self._metrics.failed.labels(reason="slow_client").inc()
        # Not Overloaded: that says that nothing was done, and may be tried again.
        self._end(key, error=DeadlineExceeded(f"the client is {STREAM_TOKENS_MAX} tokens behind"))
        # Not from inside the core's own actions: after them.
        asyncio.get_running_loop().call_soon(self.post, Cancelled(key=key))

    def _end(
        self,
        key: RequestKey,
        *,
        finish: pb.Finish | None = None,
        error: ServiceError | None = None,
    ) -> None:
        stream = self._streams.get(key)
        if stream is None or stream.ended:
            return
        stream.end(finish, error)
        if error is not None:
            request = stream.request
            level = logging.DEBUG if error.definite else logging.WARNING  # refusals may be many
            context = {"request_id": request.request_id, "attempt": request.attempt}
            _log.log(level, "request %s: %s", request.request_id, error, extra=context)
