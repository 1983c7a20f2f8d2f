"""The gateway process: `python -m services.gateway --model FILE --scheduler ADDRESS …`.

Prints one line to stdout, `LAMINA_URL http://host:port`, as soon as it listens.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import uvloop

from engine.errors import EngineError
from services.common import config, lifecycle, telemetry
from services.common.lifecycle import Exit
from services.gateway.app import build
from services.gateway.config import GatewayConfig
from services.gateway.gateway import Gateway
from services.gateway.server import bind, serving, url_of

_log = logging.getLogger("gateway")


def main(argv: list[str] | None = None) -> int:
    """Run until told to stop; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    gateway = config.parse(GatewayConfig, "services.gateway", arguments, os.environ)
    telemetry.start_logging("gateway", gateway.log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve(gateway))


async def serve(config: GatewayConfig) -> Exit:
    """Listen at once, answer when the model is there, drain when told to stop."""
    try:
        listener = bind(config.host, config.port)
    except OSError as error:
        _log.error("--host %s --port %d: %s", config.host, config.port, error)
        return Exit.REFUSED
    stopped = lifecycle.stop_event()
    async with Gateway.open(config) as gateway, serving(build(gateway), listener) as server:
        sys.stdout.write(f"LAMINA_URL {url_of(listener)}\n")
        sys.stdout.flush()
        try:
            if not await lifecycle.until_stopped(stopped, gateway.failed(), server):
                return Exit.FAILED
        except EngineError as error:
            _log.error("--model: %s", error)
            return Exit.REFUSED
        drained = await gateway.drain(config.drain_seconds)
        return Exit.STOPPED if drained else Exit.DRAIN_TIMED_OUT


if __name__ == "__main__":
    sys.exit(main())
