"""A scheduler process from its first socket to its exit code.

Build, listen, ready when a worker is; on SIGTERM refuse new requests, finish the open ones, stop. A
broken promise inside, or another scheduler on our worker, ends it with Exit.FAILED.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack

from services.common import lifecycle, rpc, telemetry
from services.common.clock import RealClock
from services.common.errors import ServiceError
from services.common.lifecycle import Exit
from services.pb.scheduler_pb2_grpc import add_SchedulerServicer_to_server
from services.scheduler.config import SchedulerConfig
from services.scheduler.core import Core
from services.scheduler.driver import Driver
from services.scheduler.metrics import SchedulerMetrics
from services.scheduler.server import SchedulerService
from services.scheduler.worker_link import WorkerLink

_log = logging.getLogger(__name__)


async def serve(config: SchedulerConfig) -> int:
    """Run until told to stop; returns the exit code. Raises what the core died of."""
    async with AsyncExitStack() as stack:
        registry = telemetry.registry("scheduler")
        try:
            port = stack.enter_context(telemetry.metrics_endpoint(registry, config.metrics_listen))
            server = await stack.enter_async_context(rpc.server(config.listen))
        except OSError as error:
            sys.stderr.write(f"lamina: error: {error}\n")
            return Exit.REFUSED
        stopped = lifecycle.stop_event()
        link = WorkerLink(config.worker)
        core = Core(queue_requests_max=config.queue_requests_max)
        driver = Driver(core, RealClock(), SchedulerMetrics(registry), link.send)
        service = SchedulerService(driver, link, config.queue_requests_max)
        add_SchedulerServicer_to_server(service, server.grpc)
        await server.start(serving=False)
        _log.info("listening on %s (port %d), metrics on port %d", config.listen, server.port, port)

        async def notice(connected: bool) -> None:
            await server.set_serving(connected and not stopped.is_set())

        linking = asyncio.create_task(link.run(driver.post, notice))
        stack.push_async_callback(_cancel, linking)
        try:
            await lifecycle.until_stopped(stopped, linking, driver.failed)
            await server.set_serving(False)
            draining = asyncio.create_task(driver.drain(config.drain_seconds))
            await lifecycle.until_stopped(asyncio.Event(), draining, linking, driver.failed)
        except ServiceError as error:
            _log.error("worker %s: %s", config.worker, error)
            return Exit.FAILED
        drained = draining.result()
        _log.info("stopped" if drained else "stopped, and cut off what was not finished in time")
        return Exit.STOPPED if drained else Exit.DRAIN_TIMED_OUT


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
