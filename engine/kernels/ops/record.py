"""Recording the native calls of a piece of a model, to run them again without Python in between.

A decode step of the same number of sequences makes the same calls on the same memory as the one
before, down to the addresses; only what the memory holds is new. The first such step records each
piece's calls in a `Program`, and the next ones run it: what the ops check and allocate is checked
and allocated once. The Python of an op takes 10 microseconds, and several times as much when the
weights that went through the processor's caches meanwhile have driven it out of them.

The native module records its own calls (csrc/program.h); ops make their results by `empty`, which
gives them memory that stays while the program lives.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from engine.kernels import _native

LINE_BYTES = 64  # a result starts on a cache line of its own
CHUNK_BYTES = 1 << 20


class Scratch:
    """Memory for the results inside programs that run one after the other and share it."""

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def restart(self) -> None:
        """Everything handed out so far may be handed out again."""
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor without contents, which keeps the memory it lies in alive."""
        size = torch.Size(shape).numel() * dtype.itemsize
        if self._used + size > self._chunk.numel():
            self._chunk = torch.empty(
                max(size, 2 * self._chunk.numel(), CHUNK_BYTES), dtype=torch.uint8
            )
            self._used = 0
        piece = self._chunk[self._used : self._used + size]
        self._used += -(-size // LINE_BYTES) * LINE_BYTES
        return piece.view(dtype).view(shape)


class Program:
    """The calls of one piece. Running it needs the memory that was there when it was recorded."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._calls = _native.Program()
        self._kept: list[Tensor] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Calls of this thread's ops are recorded as they are made."""
        assert _thread.program is None, "programs are not recorded inside each other"
        self._scratch.restart()
        try:
            _thread.program = self
            _native.record(self._calls)
            yield
        finally:
            _native.stop_recording()
            _thread.program = None

    def __call__(self) -> None:
        """Make the calls again."""
        _native.run_program(self._calls)

    def empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory that stays while the program lives; other programs of the scratch use it too."""
        out = self._scratch.empty(shape, dtype)
        self._kept.append(out)
        return out


class _Thread(threading.local):
    program: Program | None = None


_thread = _Thread()


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor for the result of an op."""
    if (program := _thread.program) is not None:
        return program.empty(shape, dtype)
    return torch.empty(*shape, dtype=dtype)
