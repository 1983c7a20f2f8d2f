"""Formats with one scale per block of 32 to 128 weights, ternary formats, and 4-bit floats."""

from __future__ import annotations

import numpy as np

from engine.gguf.quants.fields import Bytes, Floats, bits, floats, half, nibbles, words
from engine.gguf.quants.lattice_tables import FP4_VALUES

BITS_32 = np.arange(32)


def q4_0(b: Bytes) -> Floats:
    return half(b, 0) * floats(nibbles(b[:, 2:]) - 8)


def q4_1(b: Bytes) -> Floats:
    return half(b, 0) * floats(nibbles(b[:, 4:])) + half(b, 2)


def q5_0(b: Bytes) -> Floats:
    high = bits(words(b, 2, 1, "<u4")[:, 0], BITS_32, 1)
    return half(b, 0) * floats((nibbles(b[:, 6:]) | high << 4) - 16)


def q5_1(b: Bytes) -> Floats:
    high = bits(words(b, 4, 1, "<u4")[:, 0], BITS_32, 1)
    return half(b, 0) * floats(nibbles(b[:, 8:]) | high << 4) + half(b, 2)


def q8_0(b: Bytes) -> Floats:
    return half(b, 0) * floats(words(b, 2, 32, "i1"))


def q1_0(b: Bytes) -> Floats:
    set_bits = bits(b[:, 2:].astype(np.int64), np.arange(8), 1).reshape(len(b), -1)
    return half(b, 0) * floats(2 * set_bits - 1)


def q2_0(b: Bytes) -> Floats:
    codes = bits(b[:, 2:].astype(np.int64), np.arange(0, 8, 2), 3).reshape(len(b), -1)
    return half(b, 0) * floats(codes - 1)


def mxfp4(b: Bytes) -> Floats:
    exponent = b[:, :1].astype(np.uint32)
    scale_bits = np.where(exponent < 2, 0x00200000 << exponent, (exponent - 1) << 23)
    scale = scale_bits.astype(np.uint32).view(np.float32)
    return scale * floats(FP4_VALUES[nibbles(b[:, 1:])])


def nvfp4(b: Bytes) -> Floats:
    code = b[:, :4].astype(np.int64)
    exponent, mantissa = code >> 3 & 15, floats(code & 7)
    normal = (1 + mantissa / 8) * floats(2.0 ** (exponent - 7.0))
    value = np.where(exponent == 0, mantissa * np.float32(2**-9), normal)
    scale = np.where((code == 0) | (code == 0x7F), 0, value * np.float32(0.5))
    values = FP4_VALUES[nibbles(b[:, 4:].reshape(-1, 8))].reshape(len(b), 4, 16)
    return floats(scale)[..., None] * floats(values)


def tq2_0(b: Bytes) -> Floats:
    quarters = b[:, :64].reshape(-1, 2, 1, 32).astype(np.int64)
    codes = quarters >> np.arange(0, 8, 2).reshape(1, 1, 4, 1) & 3
    return half(b, 64) * floats(codes.reshape(len(b), -1) - 1)


def tq1_0(b: Bytes) -> Floats:
    def trits(part: Bytes, count: int) -> NDArrayOfInt:
        powers = np.array([1, 3, 9, 27, 81], np.uint8)[:count].reshape(1, count, 1)
        shifted = (part[:, None, :] * powers).astype(np.int64)  # wraps at 256, as the format means
        return (shifted * 3 >> 8).reshape(len(part), -1)

    parts = [trits(b[:, :32], 5), trits(b[:, 32:48], 5), trits(b[:, 48:52], 4)]
    return half(b, 52) * floats(np.concatenate(parts, axis=1) - 1)


NDArrayOfInt = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
