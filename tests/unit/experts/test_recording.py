"""An engine that traces: it goes on when the trace cannot."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from engine.api import Sampling
from engine.experts.trace import read_trace
from engine.local import generate
from helpers.engines import opened
from helpers.tiny_gguf import write_tiny_model

TOKENS = 80  # more steps than are written at once


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "moe.gguf")


def generated(model: Path, trace: Path | None) -> list[int]:
    with opened(model, expert_trace=trace) as engine:
        steps = generate(engine, [[1, 2, 3]], Sampling(temperature=0), max_tokens=TOKENS)
        return [one.token.token for one in steps]


def test_a_trace_changes_nothing_and_has_every_step(model: Path, tmp_path: Path) -> None:
    assert generated(model, tmp_path / "t") == generated(model, None)
    _, steps = read_trace(tmp_path / "t")
    assert [step.tokens for step in steps] == [3, *[1] * (TOKENS - 1)]


def test_generation_goes_on_when_the_disk_is_full(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    generated(model, path)
    size, (soft, hard) = path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    try:
        tokens = generated(model, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert tokens == generated(model, None)
    assert "the routing trace ends here" in caplog.text
    assert path.stat().st_size == size
