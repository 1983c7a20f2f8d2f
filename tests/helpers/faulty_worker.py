"""A worker process whose engine is at fault; `--model` says how. Run as a module by tests.

`fault:20`   the twentieth step raises
`loading:`   loads until it is told to stop
`stuck:`     loads, and does not look whether it is told to stop
"""

from __future__ import annotations

import itertools
import sys
import threading

from engine.api import Engine, StepRequest
from engine.config import EngineConfig
from engine.fake import FakeEngine
from services.worker import __main__ as worker_main
from services.worker import loop, process
from services.worker.loading import LoadStopped

CLOSE_SECONDS = 0.5  # instead of the worker's own, so that a test need not wait


def make_engine(config: EngineConfig, stopping: threading.Event) -> Engine:
    kind, _, number = str(config.model).partition(":")
    if kind == "loading":
        stopping.wait()
        raise LoadStopped("told to stop")
    if kind == "stuck":
        threading.Event().wait()
    assert kind == "fault", f"no such fault: {kind}"
    steps = itertools.count(1)

    def before_step(request: StepRequest) -> None:
        if next(steps) == int(number):
            raise RuntimeError("a fault in the engine")

    return FakeEngine(before_step=before_step)


if __name__ == "__main__":
    process.make_engine = make_engine  # type: ignore[attr-defined]
    loop.CLOSE_SECONDS = CLOSE_SECONDS
    sys.exit(worker_main.main())
