"""A gateway on the test's event loop: real HTTP on a free port, a fake scheduler behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import openai

from engine.text.load import load_text
from engine.text.tokenizer import Tokenizer
from helpers.eventually import eventually
from helpers.fake_scheduler import FakeScheduler, Script
from services.gateway.app import build
from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway
from services.gateway.server import bind, serving, url_of


@dataclass(frozen=True, kw_only=True)
class RunningGateway:
    """What a test talks to."""

    url: str
    gateway: Gateway
    scheduler: FakeScheduler
    client: openai.AsyncOpenAI
    tokenizer: Tokenizer

    @property
    def model(self) -> str:
        """The name clients ask for."""
        return self.gateway.model_id

    def ids(self, text: str) -> list[int]:
        """The tokens of plain text."""
        return self.tokenizer.encode(text)

    def cycled(self, prompt: Sequence[int], *, seed: int, count: int) -> str:
        """What the fake scheduler makes of a prompt."""
        tokens = [prompt[(seed + i) % len(prompt)] for i in range(count)]
        return self.tokenizer.decode(tokens)

    def saying(self, text: str) -> Script:
        """A script for the scheduler: `text` and the model's end token."""
        tokens = [*self.ids(text), min(self.tokenizer.stop_ids)]
        return lambda _request: tokens

    def counter(self, name: str) -> float:
        """A metric without labels, as it stands."""
        value = self.gateway.metrics.registry.get_sample_value(name)
        assert value is not None, f"no metric {name}"
        return value


@asynccontextmanager
async def running_gateway(
    model: Path, *, context_tokens_max: int = 4096, **changes: object
) -> AsyncIterator[RunningGateway]:
    """Serve the text side of `model`; `changes` are fields of GatewayConfig."""
    tokenizer = load_text(model).tokenizer
    async with FakeScheduler.serve(
        vocab_size=tokenizer.vocab_size, context_tokens_max=context_tokens_max
    ) as scheduler:
        config = replace(
            GatewayConfig(model=model, model_id="tiny", scheduler=scheduler.address),
            **changes,  # type: ignore[arg-type]
        )
        listener = bind("127.0.0.1", 0)
        url = url_of(listener)
        async with (
            Gateway.open(config) as gateway,
            serving(build(gateway), listener),
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
        ):
            await eventually(lambda: gateway.not_ready_reason is None)
            yield RunningGateway(
                url=url, gateway=gateway, scheduler=scheduler, client=client, tokenizer=tokenizer
            )
