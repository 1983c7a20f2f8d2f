"""Makes the engine and shows how far loading is: a bar on a terminal, else a log line now and then.

Runs in the engine's thread. A load that is told to stop does so at its next report.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from pathlib import Path

from tqdm import tqdm

from engine.api import Engine
from engine.config import SEQUENCES_AUTO_MAX, EngineConfig, LoadProgress
from engine.errors import EngineError
from engine.fake import FakeEngine

LOG_EVERY_SECONDS = 2.0
FAKE_MODEL = Path("fake:")
_log = logging.getLogger(__name__)


class LoadStopped(EngineError):
    """The process was told to stop while it loaded."""


def make_engine(config: EngineConfig, stopping: threading.Event) -> Engine:
    """Load the model. Raises EngineError for one that cannot be run, LoadStopped when told to."""
    if config.model == FAKE_MODEL:
        kv_tokens = config.kv_tokens or 16384
        return FakeEngine(
            page_tokens=config.page_tokens,
            num_pages=kv_tokens // config.page_tokens,
            sequences_max=config.sequences_max or SEQUENCES_AUTO_MAX,
            step_tokens_max=config.step_tokens_max,
        )
    from engine.load import load_engine  # here, because it brings in torch

    with ProgressBar() if sys.stderr.isatty() else ProgressLog() as show:

        def progress(report: LoadProgress) -> None:
            if stopping.is_set():
                raise LoadStopped("told to stop while loading")
            show(report)

        return load_engine(config, progress)


class ProgressBar:
    """A bar with bytes, bytes per second and what is being loaded."""

    def __init__(self) -> None:
        self._bar = tqdm(unit="B", unit_scale=True, unit_divisor=1024, desc="loading")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def __call__(self, progress: LoadProgress) -> None:
        self._bar.total = progress.total_bytes
        self._bar.set_postfix_str(progress.what, refresh=False)
        self._bar.update(progress.done_bytes - self._bar.n)


class ProgressLog:
    """One line every couple of seconds, and one at the end."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def __enter__(self) -> ProgressLog:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, progress: LoadProgress) -> None:
        now = time.monotonic()
        if now - self._last < LOG_EVERY_SECONDS and progress.done_bytes < progress.total_bytes:
            return
        self._last = now
        rate = progress.done_bytes / max(now - self._began, 1e-6) / 1e9
        share = progress.done_bytes / progress.total_bytes
        _log.info("loading %.0f %% (%.2f GB/s), %s", 100 * share, rate, progress.what)
