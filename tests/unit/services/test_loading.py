"""What loading shows, and that it can be stopped."""

from __future__ import annotations

import io
import logging
import sys
import threading
from pathlib import Path

import pytest

from engine.config import EngineConfig, LoadProgress
from engine.errors import ModelFileError
from helpers.system import DEMO_MODEL
from services.worker.loading import LoadStopped, ProgressBar, ProgressLog, make_engine

MIB = 1 << 20


def report(done: int) -> LoadProgress:
    return LoadProgress(done_bytes=done * MIB, total_bytes=100 * MIB, what="blk.3.ffn_up")


def test_log_has_a_line_now_and_then_and_one_at_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("services.worker.loading.time.monotonic", lambda: now[0])
    with caplog.at_level(logging.INFO), ProgressLog() as show:
        for done in range(0, 101):
            now[0] = done / 20  # five seconds in all
            show(report(done))
    shares = [record.getMessage().split(" %")[0] for record in caplog.records]
    assert shares == ["loading 40", "loading 80", "loading 100"]
    assert "GB/s" in caplog.text
    assert "blk.3.ffn_up" in caplog.text


def test_bar_shows_bytes_rate_and_what(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with ProgressBar() as show:
        show(report(0))
        show(report(100))
    last = terminal.getvalue().rsplit("\r", 1)[-1]
    assert "100%" in last
    assert "100M/100M" in last
    assert "B/s" in last
    assert "blk.3.ffn_up" in last


def test_load_that_is_told_to_stop_stops() -> None:
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(LoadStopped):
        make_engine(EngineConfig(model=DEMO_MODEL, threads=1), stopping)


def test_fake_engine_takes_the_worker_s_limits() -> None:
    config = EngineConfig(model=Path("fake:"), kv_tokens=640, sequences_max=3, step_tokens_max=7)
    facts = make_engine(config, threading.Event()).facts
    assert (facts.num_pages, facts.sequences_max, facts.step_tokens_max) == (40, 3, 7)


def test_missing_file_is_a_model_file_error(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError):
        make_engine(EngineConfig(model=tmp_path / "none.gguf"), threading.Event())
