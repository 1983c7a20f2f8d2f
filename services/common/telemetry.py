"""Logs and metrics, the same in every process.

Logs go to stderr: JSON, one object a line, or plain text on a terminal. Metrics live in a registry
of the process's own and are served over HTTP for Prometheus.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Gauge, start_http_server
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

# Offloaded models are slow: the tails matter. Source: vLLM's time-to-first-token buckets.
SECONDS_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)


CONTEXT = ("request_id", "attempt")  # passed as `extra` by who logs about one request


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, process, logger, message, context, exception."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= {name: getattr(record, name) for name in CONTEXT if hasattr(record, name)}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def start_logging(process: str, level: str = "info") -> None:
    """Send this process's logs to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    if sys.stderr.isatty():
        handler.setFormatter(logging.Formatter(f"%(asctime)s {process}: %(message)s", "%H:%M:%S"))
    else:
        handler.setFormatter(JsonFormatter(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def registry(process: str) -> CollectorRegistry:
    """A registry with what every process reports: memory, CPU, files, and its version."""
    made = CollectorRegistry()
    ProcessCollector(registry=made)
    PlatformCollector(registry=made)
    info = Gauge(
        *("lamina_build_info", "Always 1; labels say what runs.", ["process", "version"]),
        registry=made,
    )
    info.labels(process=process, version=version("lamina")).set(1)
    return made


@contextmanager
def metrics_endpoint(made: CollectorRegistry, address: str) -> Iterator[int]:
    """Serve /metrics on `host:port`; yields the port. Raises OSError when it cannot be had."""
    host, port = split_address(address)
    try:
        server, thread = start_http_server(int(port), addr=host, registry=made)
    except (OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise OSError(f"cannot serve metrics on {address}: {reason}") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def split_address(address: str) -> tuple[str, str]:
    """Host and port of `host:port`, `[IPv6]:port` or `:port`, the last on the loopback."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", port
