"""What one gateway process shares between its requests: readiness, limits, the way to stop.

`__main__` opens a `Gateway`, `app` serves it, `lifecycle` drains it. It is ready when the text side
of the model is loaded and the scheduler says it serves; both are facts that tasks of this class
publish, so answering /health never waits.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from services.common import lifecycle, telemetry
from services.common.errors import Draining, NotReady, Overloaded
from services.gateway.config import GatewayConfig
from services.gateway.fanout import Fanout, Job
from services.gateway.metrics import Metrics
from services.gateway.scheduler_client import SchedulerClient
from services.gateway.texts import Texts
from services.pb import scheduler_pb2

RETRY_SECONDS = 2  # when this process itself is full: about one short answer


class Gateway:
    """One served model, its scheduler, and the requests in progress."""

    def __init__(self, config: GatewayConfig, scheduler: SchedulerClient) -> None:
        self.config = config
        self.model_id = config.model_id or name_of(config.model)
        self.metrics = Metrics(telemetry.registry("gateway"))
        self.draining = False
        self._started = int(time.time())
        self._scheduler = scheduler
        self._texts: Texts | None = None
        self._loading: asyncio.Task[None] | None = None
        self._num_open = 0
        self._fanouts: set[Fanout] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    @classmethod
    @asynccontextmanager
    async def open(cls, config: GatewayConfig) -> AsyncIterator[Gateway]:
        """Connect to the scheduler and load the text side, both in the background."""
        async with SchedulerClient.open(config.scheduler, config.request_seconds_max) as scheduler:
            gateway = cls(config, scheduler)
            loading = asyncio.create_task(gateway._load())
            gateway._loading = loading
            try:
                yield gateway
            finally:
                loading.cancel()
                await asyncio.gather(loading, return_exceptions=True)
                if gateway._texts is not None:
                    gateway._texts.close()

    async def failed(self) -> None:
        """Never returns; raises EngineError if the model's text side cannot be loaded."""
        assert self._loading is not None, "the gateway has not been opened"
        await self._loading
        await asyncio.Event().wait()

    async def _load(self) -> None:
        self._texts = await Texts.load(self.config.model)

    @property
    def not_ready_reason(self) -> str | None:
        """Why requests are refused right now; None: they are not."""
        if self.draining:
            return "The server is shutting down"
        if self._texts is None or self._scheduler.facts is None:
            return "Loading model"
        return None

    def ready(self) -> tuple[Texts, scheduler_pb2.Description]:
        """What a request needs. Raises NotReady, Draining."""
        if self.draining:
            raise Draining("the server is shutting down")
        if self._texts is None or self._scheduler.facts is None:
            raise NotReady("loading model")
        return self._texts, self._scheduler.facts

    def model_body(self) -> dict[str, object]:
        """The model object of /v1/models."""
        body: dict[str, object] = {
            "id": self.model_id,
            "object": "model",
            "created": self._started,
            "owned_by": "lamina",
        }
        facts = self._scheduler.facts
        if facts is not None:
            body["max_model_len"] = facts.context_tokens_max
            if facts.experts_per_token != facts.model_experts_per_token:
                body["approximate"] = True
                body["experts_per_token"] = facts.experts_per_token
                body["model_experts_per_token"] = facts.model_experts_per_token
        return body

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Counts a generation request as open. Raises Overloaded."""
        if self._num_open >= self.config.requests_max:
            raise Overloaded(
                f"{self._num_open} requests are open, the most this gateway takes",
                retry_after_ms=1000 * RETRY_SECONDS,
            )
        self._num_open += 1
        self._idle.clear()
        self.metrics.requests_open.inc()
        try:
            yield
        finally:
            self._num_open -= 1
            self.metrics.requests_open.dec()
            if self._num_open == 0:
                self._idle.set()

    @asynccontextmanager
    async def fanout(self, jobs: Sequence[Job], choices_per_prompt: int) -> AsyncIterator[Fanout]:
        """Runs the choices of an admitted request; see `abort`."""
        async with Fanout(
            jobs, self._scheduler.submit, choices_per_prompt=choices_per_prompt
        ) as fanout:
            self._fanouts.add(fanout)
            try:
                yield fanout
            finally:
                self._fanouts.discard(fanout)

    async def drain(self, drain_seconds: float) -> bool:
        """Refuse new requests and wait for the open ones; whether all ended in time."""
        self.draining = True
        drained = await lifecycle.happens_within(self._idle, drain_seconds)
        if not drained:
            for fanout in self._fanouts:
                fanout.fail(Draining("the server shut down before this answer was complete"))
        return drained


def name_of(model: Path) -> str:
    """A model's name from its file: no folder, no shard number, no suffix."""
    return re.sub(r"-\d{5}-of-\d{5}$", "", model.name.removesuffix(".gguf"))
