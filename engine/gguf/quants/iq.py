"""The IQ formats: weights are entries of a lattice, addressed by index, with signs and scales."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.gguf.quants import lattice_tables as tables
from engine.gguf.quants.fields import Bytes, Floats, bits, floats, half, nibbles, words

Codes = NDArray[np.int64]
SIGN_BITS = np.arange(8)
SEVENS = np.arange(0, 28, 7)


def _signed(entries: NDArray[np.int8], signs: Codes) -> Floats:
    """entries (n, groups, 8), signs (n, groups) bit masks -> (n, groups * 8)."""
    flips = 1 - 2 * bits(signs, SIGN_BITS, 1)
    return floats(entries * flips).reshape(len(entries), -1)


def _spread(scale: Floats, count: int) -> Floats:
    return np.repeat(scale.reshape(len(scale), -1), count, axis=1)


def _half_scales(b: Bytes, at: int) -> Floats:
    """(n, 256): sixteen four-bit scales from byte `at`, low nibble first."""
    packed = bits(b[:, at : at + 8].astype(np.int64), np.array([0, 4]), 15)
    return _spread(half(b, 0)[..., None] * (floats(packed) + 0.5) * np.float32(0.25), 16)


def iq2_xxs(b: Bytes) -> Floats:
    index = b[:, 2:].reshape(-1, 8, 8)[:, :, :4].reshape(-1, 32)
    aux = words(b, 2, 16, "<u4")[:, 1::2]
    scale = half(b, 0) * (floats(aux >> 28) + 0.5) * np.float32(0.25)
    signs = tables.SIGNS[bits(aux, SEVENS, 127)].reshape(-1, 32).astype(np.int64)
    return _spread(scale, 32) * _signed(tables.IQ2_XXS_GRID[index], signs)


def iq2_xs(b: Bytes) -> Floats:
    codes = words(b, 2, 32, "<u2")
    signs = tables.SIGNS[codes >> 9].astype(np.int64)
    return _half_scales(b, 66) * _signed(tables.IQ2_XS_GRID[codes & 511], signs)


def iq2_s(b: Bytes) -> Floats:
    high = bits(words(b, 66, 8, "u1"), np.arange(0, 8, 2), 3).reshape(-1, 32)
    codes = words(b, 2, 32, "u1") | high << 8
    return _half_scales(b, 74) * _signed(tables.IQ2_S_GRID[codes], words(b, 34, 32, "u1"))


def iq3_xxs(b: Bytes) -> Floats:
    entries = tables.IQ3_XXS_GRID[words(b, 2, 64, "u1")].reshape(-1, 32, 8)
    aux = words(b, 66, 8, "<u4")
    scale = half(b, 0) * (floats(aux >> 28) + 0.5) * np.float32(0.5)
    signs = tables.SIGNS[bits(aux, SEVENS, 127)].reshape(-1, 32).astype(np.int64)
    return _spread(scale, 32) * _signed(entries, signs)


def iq3_s(b: Bytes) -> Floats:
    high = bits(words(b, 66, 8, "u1"), np.arange(8), 1).reshape(-1, 64)
    entries = tables.IQ3_S_GRID[words(b, 2, 64, "u1") | high << 8].reshape(-1, 32, 8)
    packed = bits(words(b, 106, 4, "u1"), np.array([0, 4]), 15).reshape(-1, 8)
    scale = half(b, 0) * floats(1 + 2 * packed)
    return _spread(scale, 32) * _signed(entries, words(b, 74, 32, "u1"))


def iq1_s(b: Bytes) -> Floats:
    high = words(b, 34, 8, "<u2")
    scale = half(b, 0) * floats(2 * (high >> 12 & 7) + 1)
    codes = words(b, 2, 32, "u1") | bits(high, np.arange(0, 12, 3), 7).reshape(-1, 32) << 8
    delta = np.where(high & 0x8000, np.float32(-0.125), np.float32(0.125))
    entries = floats(tables.IQ1_S_GRID[codes]).reshape(len(b), -1)
    return _spread(scale, 32) * (entries + _spread(delta, 32))


def iq1_m(b: Bytes) -> Floats:
    packed = words(b, 48, 4, "<u2")
    common = packed[:, :1] >> 12
    for index, (shift, mask) in enumerate(((8, 0xF0), (4, 0xF00), (0, 0xF000)), 1):
        common = common | packed[:, index : index + 1] >> shift & mask
    d = common.astype("<u2").view("<f2").astype(np.float32)
    scale = d * floats(2 * bits(packed, np.arange(0, 12, 3), 7).reshape(-1, 16) + 1)
    high = bits(words(b, 32, 16, "u1"), np.array([0, 4]), 15).reshape(-1, 32)
    codes = words(b, 0, 32, "u1") | (high & 7) << 8
    delta = np.where(high & 8, np.float32(-0.125), np.float32(0.125))
    entries = floats(tables.IQ1_S_GRID[codes]).reshape(len(b), -1)
    return _spread(scale, 16) * (entries + _spread(delta, 8))


def iq4_nl(b: Bytes) -> Floats:
    return half(b, 0) * floats(tables.IQ4_NL_VALUES[nibbles(b[:, 2:])])


def iq4_xs(b: Bytes) -> Floats:
    low = bits(words(b, 4, 4, "u1"), np.array([0, 4]), 15).reshape(-1, 8)
    high = bits(words(b, 2, 1, "<u2")[:, 0], np.arange(0, 16, 2), 3)
    scale = half(b, 0) * floats((low | high << 4) - 32)
    codes = nibbles(b[:, 8:].reshape(-1, 16)).reshape(len(b), -1)
    return _spread(scale, 32) * floats(tables.IQ4_NL_VALUES[codes])
