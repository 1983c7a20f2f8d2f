"""Runs a worker process: `python -m services.worker --model FILE --listen ADDRESS`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from services.common import config, telemetry
from services.common.lifecycle import Exit
from services.worker.config import WorkerConfig
from services.worker.loop import is_left_behind
from services.worker.process import serve


def main() -> int:
    """Parse, start telemetry, serve; the exit code says why it ended."""
    parsed = config.parse(WorkerConfig, "services.worker", sys.argv[1:], os.environ)
    telemetry.start_logging("worker", parsed.log_level)
    try:
        code = asyncio.run(serve(parsed))
    except Exception:  # the outermost frame of the process
        logging.getLogger(__name__).critical("the engine died", exc_info=True)
        code = Exit.FAILED
    if is_left_behind():  # native code that is still running must not see its world taken down
        logging.shutdown()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
