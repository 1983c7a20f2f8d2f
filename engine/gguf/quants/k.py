"""The K formats: super-blocks of 256 weights with small scales packed beside them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.gguf.quants.fields import Bytes, Floats, bits, floats, half, words

PAIRS = np.arange(0, 8, 2).reshape(1, 1, 4, 1)


def _two_bits(codes: Bytes) -> NDArray[np.int64]:
    """(n, 64) -> (n, 256): of each 32 bytes first all lowest pairs of bits, then the next."""
    quarters = bits(codes.reshape(-1, 2, 32).astype(np.int64), np.arange(0, 8, 2), 3)
    return quarters.transpose(0, 1, 3, 2).reshape(len(codes), 256)


def _halves_of_64(codes: Bytes) -> NDArray[np.int64]:
    """(n, 128) -> (n, 256): of each 32 bytes first the low nibbles, then the high."""
    halves = bits(codes.reshape(-1, 4, 32).astype(np.int64), np.array([0, 4]), 15)
    return halves.transpose(0, 1, 3, 2).reshape(len(codes), 256)


def _spread(values: Floats, count: int) -> Floats:
    """Repeat each scale over the weights it belongs to."""
    return np.repeat(values, count, axis=1)


def q2_k(b: Bytes) -> Floats:
    scale = half(b, 80) * floats(b[:, :16] & 15)
    low = half(b, 82) * floats(b[:, :16] >> 4)
    return _spread(scale, 16) * floats(_two_bits(b[:, 16:80])) - _spread(low, 16)


def q3_k(b: Bytes) -> Floats:
    packed = b[:, 96:108].astype(np.int64)
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    high = (packed[:, None, 8:] >> np.arange(0, 8, 2).reshape(1, 4, 1) & 3).reshape(len(b), 16)
    scale = half(b, 108) * floats((low | high << 4) - 32)
    kept = (b[:, None, :32].astype(np.int64) >> np.arange(8).reshape(1, 8, 1) & 1).reshape(-1, 256)
    return _spread(scale, 16) * floats(_two_bits(b[:, 32:96]) - 4 * (1 - kept))


def _scales_and_minima(b: Bytes) -> tuple[Floats, Floats]:
    """(n, 256) each, of Q4_K and Q5_K: eight pairs of six bits in bytes 4 to 15."""
    packed = b[:, 4:16].astype(np.int64)
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scale = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=1)
    low = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    return _spread(half(b, 0) * floats(scale), 32), _spread(half(b, 2) * floats(low), 32)


def q4_k(b: Bytes) -> Floats:
    scale, low = _scales_and_minima(b)
    return scale * floats(_halves_of_64(b[:, 16:])) - low


def q5_k(b: Bytes) -> Floats:
    scale, low = _scales_and_minima(b)
    high = (b[:, None, 16:48].astype(np.int64) >> np.arange(8).reshape(1, 8, 1) & 1) << 4
    return scale * floats(_halves_of_64(b[:, 48:]) | high.reshape(-1, 256)) - low


def q6_k(b: Bytes) -> Floats:
    low = b[:, :128].reshape(-1, 2, 1, 64).astype(np.int64) >> np.array([0, 4]).reshape(1, 1, 2, 1)
    high = b[:, 128:192].reshape(-1, 2, 1, 32).astype(np.int64) >> PAIRS
    codes = (low & 15).reshape(-1, 256) | (high & 3).reshape(-1, 256) << 4
    scale = half(b, 208) * floats(words(b, 192, 16, "i1"))
    return _spread(scale, 16) * floats(codes - 32)
