"""Configuration of a scheduler process."""

from __future__ import annotations

from dataclasses import dataclass

from services.common.config import count, flag, log_level, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Admit requests, compose steps, follow one worker."""

    worker: str = flag("address of the worker, host:port or unix:path")
    listen: str = flag("address to serve on, host:port or unix:path")
    metrics_listen: str = flag("host:port of /metrics; port 0: any", default="127.0.0.1:0")
    queue_requests_max: int = flag("requests that may wait", default=256, kind=count)
    drain_seconds: float = flag("to finish on SIGTERM", default=30.0, kind=seconds)
    log_level: str = flag("debug, info, warning or error", default="info", kind=log_level)
