"""Carries out what the core decides: streams to clients, steps to the worker, numbers to metrics.

Lives on the event loop; `post` is called by the gRPC servicer and by the worker link, in one
thread. Each Submit call has a bounded queue of events; a client that does not read its stream is
cancelled when the queue is full, so that it cannot hold up the others. A broken promise of the core
sets `failed`, and the process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

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

STREAM_EVENTS_MAX = 1024  # tokens a client may be behind
REASONS = {Reason.STOP: pb.FINISH_REASON_STOP, Reason.LENGTH: pb.FINISH_REASON_LENGTH}
ERRORS: dict[Refusal, type[ServiceError]] = {
    Refusal.INVALID: InvalidRequest,
    Refusal.OVERLOADED: Overloaded,
    Refusal.NOT_READY: NotReady,
    Refusal.DRAINING: Draining,
    Refusal.WORKER_LOST: WorkerLost,
}


@dataclass(slots=True)
class _Stream:
    """Events on their way to one client; an error or None ends them."""

    events: asyncio.Queue[pb.SubmitEvent] = field(
        default_factory=lambda: asyncio.Queue(STREAM_EVENTS_MAX)
    )
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    error: ServiceError | None = None


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
        except AssertionError as error:
            if not self.failed.done():
                self.failed.set_exception(error)
            raise
        self._metrics.preemptions.inc(self._core.preemptions - preempted)
        self._metrics.running.set(self._core.num_running)
        self._metrics.waiting.set(self._core.num_waiting)
        self._metrics.kv_usage.set(self._core.page_usage)

    async def submit(self, make: Callable[[RequestKey], Request]) -> AsyncGenerator[pb.SubmitEvent]:
        """Run one request to its end; closing the generator cancels it. Raises ServiceError."""
        self._keys += 1
        key = RequestKey(self._keys)
        stream = self._streams[key] = _Stream()
        self._idle.clear()
        try:
            self.post(Submitted(request=make(key)))
            while True:
                event = await _next_event(stream)
                if event is None:
                    break
                yield event
            if stream.error is not None:
                raise stream.error
        finally:
            del self._streams[key]
            if not self._streams:
                self._idle.set()
            if not stream.ended.is_set():
                self._metrics.failed.labels(reason="cancelled").inc()
                self.post(Cancelled(key=key))

    async def drain(self, drain_seconds: float) -> bool:
        """Refuse new requests, wait until the open ones have ended and were read to their end.

        Returns whether that was so in time.
        """
        self.post(Drain())
        try:
            async with asyncio.timeout(drain_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _do(self, action: Action) -> None:
        match action:
            case SendStep():
                self._step_sent_at = self._clock.now()
                self._metrics.step_tokens.observe(sum(len(e.tokens) for e in action.entries))
                self._send_step(action)
            case Emit(key=key, token=token):
                assert isinstance(token, Token)
                self._metrics.generated_tokens.inc()
                self._put(key, pb.SubmitEvent(tokens=[token]))
            case Finish():
                self._finish(action)
            case Refuse():
                series = self._metrics.failed if action.began else self._metrics.rejections
                series.labels(reason=action.refusal.value).inc()
                kind = ERRORS[action.refusal]
                self._end(
                    action.key,
                    kind(action.message, param=action.param, retry_after_ms=action.retry_after_ms),
                )

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
        self._put(finish.key, pb.SubmitEvent(finish=message))
        self._end(finish.key, None)

    def _put(self, key: RequestKey, event: pb.SubmitEvent) -> None:
        stream = self._streams.get(key)
        if stream is None or stream.ended.is_set():
            return
        try:
            stream.events.put_nowait(event)
        except asyncio.QueueFull:
            self._metrics.failed.labels(reason="slow_client").inc()
            # Not Overloaded: that says that nothing was done, and may be tried again.
            self._end(key, DeadlineExceeded(f"the client is {STREAM_EVENTS_MAX} tokens behind"))
            # Not from inside the core's own actions: after them.
            asyncio.get_running_loop().call_soon(self.post, Cancelled(key=key))

    def _end(self, key: RequestKey, error: ServiceError | None) -> None:
        stream = self._streams.get(key)
        if stream is not None and not stream.ended.is_set():
            stream.error = error
            stream.ended.set()


async def _next_event(stream: _Stream) -> pb.SubmitEvent | None:
    """The next event; None when the stream has ended and all was delivered."""
    if stream.events.empty() and not stream.ended.is_set():
        getting = asyncio.ensure_future(stream.events.get())
        ending = asyncio.ensure_future(stream.ended.wait())
        try:
            await asyncio.wait({getting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
        finally:
            getting.cancel()
            ending.cancel()
    return None if stream.events.empty() else stream.events.get_nowait()
