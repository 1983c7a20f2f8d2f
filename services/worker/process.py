"""A worker process from its first socket to its exit code.

Build, listen, load, ready; on SIGTERM go on until no sequence is open, `drain_seconds` at most;
on a dead engine say so and exit. A scheduler that stops first leaves nothing to wait for.
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
    """Run until told to stop; returns the exit code. Raises what the engine died of."""
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
        service = WorkerService(loop, metrics)
        add_WorkerServicer_to_server(service, server.grpc)
        await server.start(serving=False)
        _log.info("listening on %s (port %d), metrics on port %d", config.listen, server.port, port)
        try:
            if not await _load(config, loop, stopped):
                return Exit.STOPPED
        except EngineError as error:
            sys.stderr.write(f"lamina: error: {error}\n")
            return Exit.REFUSED
        assert loop.engine is not None
        metrics.loaded(loop.engine.facts)
        await server.set_serving(True)
        _log.info("ready")
        await lifecycle.until_stopped(stopped, loop.failed)
        await server.set_serving(False)
        drained = await service.drain(config.drain_seconds)
        if loop.failed.done():
            loop.failed.result()
        _log.info("stopped" if drained else "stopped, and cut off what was not finished in time")
        return Exit.STOPPED if drained else Exit.DRAIN_TIMED_OUT


async def _load(config: WorkerConfig, loop: StepLoop, stopped: asyncio.Event) -> bool:
    """Load the model; False when told to stop before it was done. Raises EngineError."""
    loading = asyncio.ensure_future(loop.load(lambda: make_engine(config.engine, loop.stopping)))
    try:
        return not await lifecycle.until_stopped(stopped, loading)
    finally:
        loading.cancel()
