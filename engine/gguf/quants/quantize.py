"""Reference quantisers of the simple formats, for test models and tools.

Source: ggml-quants.c (quantize_row_*_ref) of llama.cpp b11549.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.gguf.types import GGMLType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def quantize(values: Floats, type: GGMLType) -> Bytes:
    """values (..., elements) float32 -> (..., row_bytes) uint8. ValueError for other types."""
    if type is GGMLType.F32:
        return values.astype("<f4").view(np.uint8)
    if type is GGMLType.F16:
        return values.astype("<f2").view(np.uint8)
    if type is GGMLType.BF16:
        return _bf16(values).view(np.uint8)
    if type not in FORMATS:
        raise ValueError(f"no quantiser for {type.name}")
    blocks = values.astype(np.float32).reshape(-1, 32)
    return FORMATS[type](blocks).reshape(*values.shape[:-1], -1)


def _bf16(values: Floats) -> NDArray[np.uint16]:
    """Rounds to nearest, ties to even."""
    bits = values.astype("<f4").view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def _inverse(d: Floats) -> Floats:
    return np.divide(1, d, out=np.zeros_like(d), where=d != 0)


def _half(d: Floats) -> Bytes:
    return d.astype("<f2").view(np.uint8)


def _packed(codes: NDArray[np.int64]) -> Bytes:
    return (codes[:, :16] | codes[:, 16:] << 4).astype(np.uint8)


def _extreme(x: Floats) -> Floats:
    """(n, 1): the value of largest magnitude, with its sign."""
    return np.take_along_axis(x, np.abs(x).argmax(1)[:, None], axis=1)


def _q8_0(x: Floats) -> Bytes:
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    codes = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int8)
    return np.concatenate([_half(d), codes.view(np.uint8)], axis=1)


def _symmetric(x: Floats, levels: int) -> tuple[Floats, NDArray[np.int64]]:
    d = _extreme(x) / np.float32(-levels)
    codes = (x * _inverse(d) + np.float32(levels + 0.5)).astype(np.int64)
    return d, np.minimum(codes, 2 * levels - 1)


def _shifted(x: Floats, most: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    low = x.min(1, keepdims=True)
    d = (x.max(1, keepdims=True) - low) / np.float32(most)
    codes = ((x - low) * _inverse(d) + np.float32(0.5)).astype(np.int64)
    return d, low, np.minimum(codes, most)


def _fifth(codes: NDArray[np.int64]) -> Bytes:
    return np.packbits((codes >> 4).astype(np.uint8), axis=1, bitorder="little")


def _q4_0(x: Floats) -> Bytes:
    d, codes = _symmetric(x, 8)
    return np.concatenate([_half(d), _packed(codes)], axis=1)


def _q4_1(x: Floats) -> Bytes:
    d, low, codes = _shifted(x, 15)
    return np.concatenate([_half(d), _half(low), _packed(codes)], axis=1)


def _q5_0(x: Floats) -> Bytes:
    d, codes = _symmetric(x, 16)
    return np.concatenate([_half(d), _fifth(codes), _packed(codes & 15)], axis=1)


def _q5_1(x: Floats) -> Bytes:
    d, low, codes = _shifted(x, 31)
    return np.concatenate([_half(d), _half(low), _fifth(codes), _packed(codes & 15)], axis=1)


FORMATS = {
    GGMLType.Q8_0: _q8_0,
    GGMLType.Q4_0: _q4_0,
    GGMLType.Q4_1: _q4_1,
    GGMLType.Q5_0: _q5_0,
    GGMLType.Q5_1: _q5_1,
}
