"""Runs a scheduler process: `python -m services.scheduler --worker ADDRESS --listen ADDRESS`."""

from __future__ import annotations

import asyncio
import os
import sys

from services.common import config, telemetry
from services.scheduler.config import SchedulerConfig
from services.scheduler.process import serve


def main() -> int:
    """Parse, start telemetry, serve; the exit code says why it ended."""
    parsed = config.parse(SchedulerConfig, "services.scheduler", sys.argv[1:], os.environ)
    telemetry.start_logging("scheduler", parsed.log_level)
    return asyncio.run(serve(parsed))


if __name__ == "__main__":
    sys.exit(main())
