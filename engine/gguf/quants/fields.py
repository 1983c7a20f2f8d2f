"""Pieces that block formats share: fields, nibbles, bits. Blocks are (num_blocks, bytes) uint8."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def half(blocks: Bytes, at: int) -> Floats:
    """(num_blocks, 1): the float16 at byte `at`."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def words(blocks: Bytes, at: int, count: int, dtype: str) -> NDArray[np.int64]:
    """(num_blocks, count): little-endian whole numbers from byte `at` on."""
    size = np.dtype(dtype).itemsize * count
    return np.ascontiguousarray(blocks[:, at : at + size]).view(dtype).astype(np.int64)


def nibbles(codes: Bytes) -> NDArray[np.int64]:
    """(n, count) -> (n, 2 * count): all low halves, then all high halves."""
    return np.concatenate([codes & 15, codes >> 4], axis=1).astype(np.int64)


def bits(value: NDArray[np.int64], shifts: NDArray[np.int64], mask: int) -> NDArray[np.int64]:
    """value[..., None] >> shifts & mask."""
    return (value[..., None] >> shifts) & mask


def floats(values: NDArray[np.generic]) -> Floats:
    return values.astype(np.float32)
