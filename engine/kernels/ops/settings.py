"""Which variant computes, and on how many threads."""

from __future__ import annotations

from engine.errors import ShapeError
from engine.kernels import _native

THREADS_MAX = 1024


def variants() -> list[str]:
    """The instruction-set variants this machine can run, best last."""
    return _native.variants()


def variant() -> str:
    """The variant in use."""
    return _native.variant()


def set_variant(name: str) -> None:
    """Use another variant, for tests. Raises ShapeError for an unknown one."""
    if not _native.set_variant(name):
        raise ShapeError(f"no variant {name!r}; this machine has {', '.join(variants())}")


def num_threads() -> int:
    """Threads that compute, the caller included."""
    return _native.num_threads()


def set_num_threads(count: int) -> None:
    """Compute with `count` threads."""
    if not 1 <= count <= THREADS_MAX:
        raise ShapeError(f"count: {count} threads, 1 to {THREADS_MAX} are possible")
    _native.set_num_threads(count)


def keep_freed_memory() -> None:
    """Let memory that this process frees stay with it, for the next large tensor (glibc)."""
    _native.keep_freed_memory()
