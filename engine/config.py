"""What an engine is told when it is made: its configuration, and how `auto` is resolved.

No torch here: the worker's command line and `lamina serve` read these values.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import CapacityError
from engine.gguf.shape import ModelShape

KV_TOKENS_AUTO_MAX = 65536
KV_MEMORY_SHARE = 4  # an automatic cache takes at most this fraction, 1/4, of the free memory
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How to load and run a model. Zeros and "auto" are resolved by `resolve`."""

    model: Path
    activations: str = "f32"  # or "int8", activations rounded per 32 values
    threads: int = 0  # 0: one per core
    kv_tokens: int = 0  # positions the KV cache holds; 0: by context and memory
    kv_type: str = "auto"  # "f32", "f16"; auto: f32 with f32 activations, else f16
    page_tokens: int = 16
    step_tokens_max: int = 512
    sequences_max: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """How far loading is."""

    done_bytes: int
    total_bytes: int
    what: str


def kv_bytes_per_token(shape: ModelShape, kv_type: str) -> int:
    """Bytes of keys and values of one position over all layers."""
    return shape.kv_values_per_token * (2 if kv_type == "f16" else 4)


def resolve(config: EngineConfig, shape: ModelShape, *, free_bytes: int) -> EngineConfig:
    """Replace zeros and "auto" by values; `free_bytes` is the memory a cache could use.

    Raises CapacityError when a cache that was asked for does not fit.
    """
    threads = config.threads or usable_cores()
    kv_type = config.kv_type
    if kv_type == "auto":
        kv_type = "f32" if config.activations == "f32" else "f16"
    per_token = kv_bytes_per_token(shape, kv_type)
    fitting = free_bytes // KV_MEMORY_SHARE // per_token
    wanted = min(max(shape.context, KV_TOKENS_AUTO_MAX), shape.context * config.sequences_max)
    kv_tokens = config.kv_tokens or max(1, min(wanted, fitting))
    kv_tokens = -(-kv_tokens // config.page_tokens) * config.page_tokens
    needed = kv_tokens * per_token
    if needed > free_bytes:
        missing = -(-(needed - free_bytes) // MIB)
        raise CapacityError(
            f"a KV cache of {kv_tokens} positions needs {-(-needed // MIB)} MiB, {missing} MiB "
            "more than is free; a smaller --kv-tokens would free it"
        )
    return replace(config, threads=threads, kv_type=kv_type, kv_tokens=kv_tokens)


def usable_cores() -> int:
    """Cores this process may run on, which containers and taskset make fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
