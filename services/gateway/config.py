"""Configuration of a gateway process: one parser, one frozen value.

`__main__` calls `parse`; nothing else reads flags or the environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """What one gateway serves and what it allows."""

    model: Path
    model_id: str
    scheduler: str
    requests_max: int = 256
    choices_max: int = 64  # prompts times n of one request
    body_bytes_max: int = 16 * 1024 * 1024
    body_seconds_max: float = 60.0
    request_seconds_max: float = 3600.0
    keepalive_seconds: float = 10.0
    stall_seconds: float = 60.0
