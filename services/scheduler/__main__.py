"""Runs a scheduler process: `python -m services.scheduler --worker ADDRESS --listen ADDRESS`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from services.common import config, telemetry
from services.common.lifecycle import Exit
from services.scheduler.config import SchedulerConfig
from services.scheduler.process import serve


def main() -> int:
    """Parse, start telemetry, serve; the exit code says why it ended."""
    parsed = config.parse(SchedulerConfig, "services.scheduler", sys.argv[1:], os.environ)
    telemetry.start_logging("scheduler", parsed.log_level)
    try:
        return asyncio.run(serve(parsed))
    except Exception:  # the outermost frame of the process
        logging.getLogger(__name__).critical("the scheduler died", exc_info=True)
        return Exit.FAILED


if __name__ == "__main__":
    sys.exit(main())
