"""Configuration of a gateway process. Read once by `__main__`, from flags and the environment."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from services.common.config import count, flag, log_level, port, seconds, size


def _limit_seconds(text: str) -> float:
    value = seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError("a limit of no time allows nothing")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """Serves a model's HTTP API; the scheduler does the work."""

    model: Path = flag("GGUF file, for its text side", kind=Path)
    model_id: str = flag("name that clients ask for; empty: the file's", default="")
    scheduler: str = flag("address of the scheduler, host:port or unix:/path")
    host: str = flag("address to listen on", default="127.0.0.1")
    port: int = flag("port to listen on; 0 picks a free one", default=8080, kind=port)
    drain_seconds: float = flag("to finish on SIGTERM", default=30.0, kind=seconds)
    log_level: str = flag("debug, info, warning or error", default="info", kind=log_level)
    requests_max: int = flag("requests open at once; more get 429", default=256, kind=count)
    choices_max: int = flag("prompts times n of one request", default=64, kind=count)
    body_bytes_max: int = flag(
        "size of a request's body, such as 16MiB", default=16 << 20, kind=size
    )
    body_seconds_max: float = flag(
        "time for a request's body to arrive", default=60.0, kind=_limit_seconds
    )
    request_seconds_max: float = flag(
        "time for one choice, waiting included", default=3600.0, kind=_limit_seconds
    )
    keepalive_seconds: float = flag(
        "between comment lines of a stream that waits", default=10.0, kind=_limit_seconds
    )
    stall_seconds: float = flag(
        "until a client that stops reading is given up", default=60.0, kind=_limit_seconds
    )
