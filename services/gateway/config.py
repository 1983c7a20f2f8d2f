"""Configuration of a gateway process: flags in, one frozen value out.

`__main__` calls `parse`; nothing else reads flags.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """What one gateway serves and what it allows."""

    model: Path
    model_id: str
    scheduler: str  # gRPC address
    requests_max: int = 256  # generation requests open at once
    choices_max: int = 64  # prompts times n of one request
    body_bytes_max: int = 16 * 1024 * 1024
    body_seconds_max: float = 60.0  # for a body to arrive
    request_seconds_max: float = 3600.0  # deadline of a choice
    keepalive_seconds: float = 10.0  # between comment lines of a waiting stream
    stall_seconds: float = 60.0  # for a client to take what was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProcess:
    """A gateway and where it listens."""

    gateway: GatewayConfig
    host: str
    port: int
    drain_seconds: float
    log_level: str


def parse(arguments: Sequence[str]) -> GatewayProcess:
    """Read the flags; exits with a message that names a bad one."""
    flags = _parser().parse_args(arguments)
    return GatewayProcess(
        gateway=GatewayConfig(
            model=flags.model,
            model_id=flags.model_id or name_of(flags.model),
            scheduler=flags.scheduler,
            requests_max=flags.requests_max,
            choices_max=flags.choices_max,
            body_bytes_max=flags.body_bytes_max,
            body_seconds_max=flags.body_seconds_max,
            request_seconds_max=flags.request_seconds_max,
            keepalive_seconds=flags.keepalive_seconds,
            stall_seconds=flags.stall_seconds,
        ),
        host=flags.host,
        port=flags.port,
        drain_seconds=flags.drain_seconds,
        log_level=flags.log_level,
    )


def name_of(model: Path) -> str:
    """A model's name from its file: no folder, no shard number, no suffix."""
    return re.sub(r"-\d{5}-of-\d{5}$", "", model.name.removesuffix(".gguf"))


def _parser() -> argparse.ArgumentParser:
    defaults = {name: field.default for name, field in GatewayConfig.__dataclass_fields__.items()}
    parser = argparse.ArgumentParser(
        prog="services.gateway",
        description="Serve a model's HTTP API; the scheduler does the work.",
        allow_abbrev=False,
    )
    parser.add_argument("--model", type=Path, required=True, help="GGUF file, for its text side")
    parser.add_argument("--model-id", help="name that clients ask for (default: the file's)")
    parser.add_argument("--scheduler", required=True, help="address, host:port or unix:path")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=_port, default=8080, help="0 picks a free one (%(default)s)")
    parser.add_argument("--drain-seconds", type=_seconds, default=30.0, help="to finish on SIGTERM")
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info"
    )
    limits: list[tuple[str, str]] = [
        ("requests-max", "generation requests open at once; more get 429"),
        ("choices-max", "prompts times n of one request"),
        ("body-bytes-max", "size of a request body; more gets 413"),
        ("body-seconds-max", "time for a request body to arrive"),
        ("request-seconds-max", "time for one choice, waiting included"),
        ("keepalive-seconds", "between comment lines of a stream that waits"),
        ("stall-seconds", "until a client that stops reading is given up"),
    ]
    for name, meaning in limits:
        default = defaults[name.replace("-", "_")]
        kind = _count if isinstance(default, int) else _limit_seconds
        parser.add_argument(
            f"--{name}", type=kind, default=default, help=f"{meaning} (%(default)s)"
        )
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{value} is not a port")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a duration in seconds")
    return value


def _limit_seconds(text: str) -> float:
    value = _seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError("a limit of no time allows nothing")
    return value
