"""A worker process from its first socket to its exit code.

Build, listen, load, ready; on SIGTERM stop taking steps and exit, on a dead engine say so and exit.
The scheduler drains before it stops, so a worker that is told to stop has nothing left to finish.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack

from engine.errors import EngineError
from services.common import lifecycle, rpc, telemetry
from services.common.lifecycle import Exit
from services.pb.worker_pb2_grpc import add_WorkerServicer_to_server
from services.worker.config import WorkerConfig
from services.worker.loading import make_engine
from services.worker.loop import StepLoop
from services.worker.metrics import WorkerMetrics
from services.worker.server import WorkerService

_log = logging.getLogger(__name__)


async def serve(config: WorkerConfig) -> int:
    """Run until told to stop."""
    async with AsyncExitStack() as stack:
        stopped = lifecycle.stop_event()
        registry = telemetry.registry("worker")
        metrics = WorkerMetrics(registry)
        try:
            port = stack.enter_context(telemetry.metrics_endpoint(registry, config.metrics_listen))
            loop = await stack.enter_async_context(StepLoop.open())
            server = await stack.enter_async_context(rpc.server(config.listen))
        except OSError as error:
            sys.stderr.write(f"lamina: error: {error}\n")
            return Exit.REFUSED
        add_WorkerServicer_to_server(WorkerService(loop, metrics), server.grpc)
        await server.start(serving=False)
        _log.info("listening on %s, metrics on port %d", config.listen, port)
        loading = asyncio.ensure_future(loop.load(lambda: make_engine(config.engine)))
        try:
            if await lifecycle.until_stopped(stopped, loading):
                return Exit.STOPPED
        except EngineError as error:
            sys.stderr.write(f"lamina: error: {error}\n")
            return Exit.REFUSED
        metrics.loaded(loading.result().facts)
        await server.set_serving(True)
        _log.info("ready")
        await lifecycle.until_stopped(stopped, loop.failed)
        await server.set_serving(False)
        return Exit.STOPPED
