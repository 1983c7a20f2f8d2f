"""The gateway's own state: its model's name, who is let in, how it drains."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.common.errors import Draining, NotReady, Overloaded
from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway, name_of
from services.gateway.scheduler_client import SchedulerClient

NOWHERE = "127.0.0.1:1"


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    """Not opened: no text side, no scheduler."""
    config = GatewayConfig(model=Path("x.gguf"), scheduler=NOWHERE, requests_max=2)
    async with SchedulerClient.open(NOWHERE, request_seconds_max=1) as scheduler:
        yield Gateway(config, scheduler)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a/b/demo.gguf", "demo"),
        ("big-Q4_K-00001-of-00012.gguf", "big-Q4_K"),
        ("odd.bin", "odd.bin"),
    ],
)
def test_gateway_names_the_model_after_its_file(file: str, name: str) -> None:
    assert name_of(Path(file)) == name


async def test_gateway_refuses_when_full_and_takes_again(gateway: Gateway) -> None:
    with gateway.admitted():
        with gateway.admitted(), pytest.raises(Overloaded) as caught, gateway.admitted():
            pass
        assert caught.value.retry_after_ms > 0
        with gateway.admitted():
            pass


async def test_gateway_is_not_ready_before_its_parts_are(gateway: Gateway) -> None:
    assert gateway.not_ready_reason == "Loading model"
    with pytest.raises(NotReady):
        gateway.ready()


async def test_gateway_that_drains_says_so(gateway: Gateway) -> None:
    assert await gateway.drain(drain_seconds=10)
    assert gateway.not_ready_reason == "The server is shutting down"
    with pytest.raises(Draining):
        gateway.ready()


async def test_gateway_drain_gives_up_in_time(gateway: Gateway) -> None:
    with gateway.admitted():
        assert not await gateway.drain(drain_seconds=0.01)
