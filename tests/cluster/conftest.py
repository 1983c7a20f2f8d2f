"""A gateway over a fake scheduler, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from helpers.running_gateway import RunningGateway, running_gateway
from helpers.text_model import write_text_model


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("model") / "text.gguf")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_gateway(tiny_model: Path) -> AsyncIterator[RunningGateway]:
    async with running_gateway(tiny_model) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def served(shared_gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    """The shared gateway; the scheduler forgets what a test told it."""
    yield shared_gateway
    shared_gateway.scheduler.reset()
