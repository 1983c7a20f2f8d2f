"""What an engine is told when it is made: its configuration, and how `auto` is resolved.

No torch here: the worker's command line and `lamina serve` read these values.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import CapacityError
from engine.kv.layout import StateLayout

KV_TOKENS_AUTO_MAX = 65536
SEQUENCES_AUTO_MAX = 64
KV_MEMORY_SHARE = 4  # an automatic cache takes at most this fraction, 1/4, of the free memory
SLOTS_MEMORY_SHARE = 8  # and automatic sequence slots this one
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How to load and run a model. Zeros and "auto" are resolved by `resolve`."""

    model: Path
    ngram_table: Path | None = None  # file that holds the n-gram table, if the model's does not
    draft_model: Path | None = None  # file that holds the draft (MTP) block, likewise
    experts_per_token: int = 0  # 0: as the file says; fewer is faster, and another model
    activations: str = "f32"  # or "int8", activations rounded per 32 values
    threads: int = 0  # 0: one per core
    kv_tokens: int = 0  # positions the KV cache holds; 0: by context and memory
    kv_type: str = "auto"  # "f32", "f16"; auto: f32 with f32 activations, else f16
    page_tokens: int = 16  # at least; the model may need a multiple of something
    step_tokens_max: int = 512
    sequences_max: int = 0  # sequences open at once; 0: by memory
    expert_trace: Path | None = None  # file to which steps are appended, see experts/trace.py

    @property
    def companions(self) -> tuple[Path, ...]:
        """Files whose tensors are added to the model's."""
        return tuple(path for path in (self.ngram_table, self.draft_model) if path is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadProgress:
    """How far loading is."""

    done_bytes: int
    total_bytes: int
    what: str


def resolve(
    config: EngineConfig, layout: StateLayout, *, context: int, free_bytes: int
) -> EngineConfig:
    """Replace zeros and "auto" by values; `free_bytes` is the memory that state could use.

    Raises CapacityError when what was asked for does not fit.
    """
    kv_type = config.kv_type
    if kv_type == "auto":
        kv_type = "f32" if config.activations == "f32" else "f16"
    page_tokens = -(-config.page_tokens // layout.page_multiple) * layout.page_multiple
    sequences_max = _sequences(config, layout, free_bytes)
    per_token = layout.bytes_per_token(kv_type)
    wanted = min(max(context, KV_TOKENS_AUTO_MAX), context * sequences_max)
    # A model without attention keeps nothing per position.
    fitting = free_bytes // KV_MEMORY_SHARE // per_token if per_token else wanted
    kv_tokens = config.kv_tokens or max(1, min(wanted, fitting))
    kv_tokens = -(-kv_tokens // page_tokens) * page_tokens
    needed = kv_tokens * per_token + sequences_max * layout.bytes_per_sequence
    if needed > free_bytes:
        slots, flags = "", "--kv-tokens"
        if layout.bytes_per_sequence:
            slots_mib = _mib(sequences_max * layout.bytes_per_sequence)
            slots = f", the state of {sequences_max} sequences {slots_mib} MiB"
            flags = "--kv-tokens or --sequences-max"
        raise CapacityError(
            f"a KV cache of {kv_tokens} positions needs {_mib(kv_tokens * per_token)} MiB{slots}, "
            f"{_mib(needed - free_bytes)} MiB more than is free; a smaller {flags} would free it"
        )
    return replace(
        config,
        threads=config.threads or usable_cores(),
        kv_type=kv_type,
        kv_tokens=kv_tokens,
        page_tokens=page_tokens,
        sequences_max=sequences_max,
    )


def _sequences(config: EngineConfig, layout: StateLayout, free_bytes: int) -> int:
    if config.sequences_max or not layout.bytes_per_sequence:
        return config.sequences_max or SEQUENCES_AUTO_MAX
    fitting = free_bytes // SLOTS_MEMORY_SHARE // layout.bytes_per_sequence
    return max(1, min(SEQUENCES_AUTO_MAX, fitting))


def _mib(num_bytes: int) -> int:
    """Rounded up."""
    return -(-num_bytes // MIB)


def usable_cores() -> int:
    """Cores this process may run on, which containers and taskset make fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
