"""Random blocks of every tensor type whose weights have a chosen size; called by `plan.py`.

Most bits of a block may be anything; the scale fields decide how large the weights are. So a pool
of blocks is drawn with scales that give the wanted root mean square, and further blocks come from
it by flipping bits that no scale depends on, at the speed of memory. Scales carry a random sign
where the type has one: codes are not centred on zero, and without it a matrix would add the same
amount to all of its outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from engine.gguf.quants import dequantize
from engine.gguf.quants.dequantize import FORMATS
from engine.gguf.types import LAYOUTS, GGMLType

POOL_BYTES = 4 << 20  # of random blocks per tensor; a smaller tensor is drawn in full
PIECE_BYTES = 1 << 20
CALIBRATION_BLOCKS = 8192
SCALE_SPREAD = 0.25  # scales lie within this fraction around their mean
Bytes = NDArray[np.uint8]

FLOATS = (GGMLType.F32, GGMLType.F16, GGMLType.BF16)
TYPES = (*FLOATS, *FORMATS)  # those that can be read back
# (byte, ratio) of each float16 scale in a block. The second one of a pair lies under all weights;
# its ratio puts their mean at zero: minus the mean code, or plus it where the format subtracts.
HALVES: dict[GGMLType, tuple[tuple[int, float], ...]] = {
    **dict.fromkeys(FORMATS, ((0, 1.0),)),
    **dict.fromkeys((GGMLType.MXFP4, GGMLType.NVFP4, GGMLType.IQ1_M), ()),
    GGMLType.Q4_1: ((0, 1.0), (2, -7.5)),
    GGMLType.Q5_1: ((0, 1.0), (2, -15.5)),
    GGMLType.Q2_K: ((80, 1.0), (82, 1.5)),
    GGMLType.Q3_K: ((108, 1.0),),
    GGMLType.Q4_K: ((0, 1.0), (2, 7.5)),
    GGMLType.Q5_K: ((0, 1.0), (2, 15.5)),
    GGMLType.Q6_K: ((208, 1.0),),
    GGMLType.TQ1_0: ((52, 1.0),),
    GGMLType.TQ2_0: ((64, 1.0),),
}
# A flip of these bits, sign and mantissa, keeps a float within a factor of two.
FLOAT_BITS = {
    GGMLType.F32: (0xFF, 0xFF, 0x7F, 0x80),
    GGMLType.F16: (0xFF, 0x83),
    GGMLType.BF16: (0x7F, 0x80),
}


@dataclass(frozen=True, slots=True)
class RandomBlocks:
    """`num_blocks` blocks of `type` whose weights have root mean square `rms`."""

    type: GGMLType
    rms: float
    num_blocks: int

    def pieces(self, random: np.random.Generator) -> Iterator[Bytes]:
        """All blocks in order, (n, block bytes) uint8 at a time.

        Blocks beyond a pool are pool and mask combined at two random places, which are so many
        combinations that rows do not repeat: equal rows of a head would tie.
        """
        size = LAYOUTS[self.type].num_bytes
        most = POOL_BYTES // size
        pool = random_blocks(self.type, min(self.num_blocks, most), self.rms, random)
        if self.num_blocks <= most:
            yield pool
            return
        mask = random.integers(0, 256, pool.shape, np.uint8) & free_bits(self.type)
        step = PIECE_BYTES // size
        for start in range(0, self.num_blocks, step):
            count = min(step, self.num_blocks - start)
            first, second = random.integers(0, most - count + 1, 2)
            yield pool[first : first + count] ^ mask[second : second + count]


def random_blocks(type: GGMLType, count: int, rms: float, random: np.random.Generator) -> Bytes:
    """(count, block bytes) uint8."""
    if type in FLOATS:
        return _floats(type, random.standard_normal((count, 1), np.float32) * np.float32(rms))
    blocks = random.integers(0, 256, (count, LAYOUTS[type].num_bytes), np.uint8)
    _set_scales(type, blocks, rms / unit_rms(type), random)
    return blocks


@cache
def unit_rms(type: GGMLType) -> float:
    """Root mean square of the weights of random blocks under scales around 1."""
    random = np.random.default_rng(int(type))
    size = LAYOUTS[type].num_bytes
    blocks = random.integers(0, 256, (CALIBRATION_BLOCKS, size), np.uint8)
    _set_scales(type, blocks, 1.0, random)
    return float(np.sqrt(np.square(dequantize(blocks, type), dtype=np.float64).mean()))


def free_bits(type: GGMLType) -> Bytes:
    """(block bytes,) uint8: the bits that may be flipped without a change of the scales."""
    if type in FLOATS:
        return np.array(FLOAT_BITS[type], np.uint8)
    free = np.full(LAYOUTS[type].num_bytes, 0xFF, np.uint8)
    for at, _ in HALVES[type]:
        free[at : at + 2] = 0
    if type is GGMLType.MXFP4:
        free[0] = 0
    if type is GGMLType.NVFP4:
        free[:4] = 0
    if type is GGMLType.IQ1_M:
        free[49::2] = 0x0F
    return free


def _floats(type: GGMLType, values: NDArray[np.float32]) -> Bytes:
    """Rounded towards zero for BF16: the bits below are noise anyway."""
    if type is GGMLType.F32:
        return values.astype("<f4").view(np.uint8)
    if type is GGMLType.F16:
        return values.astype("<f2").view(np.uint8)
    return (values.view(np.uint32) >> 16).astype("<u2").view(np.uint8)


def _set_scales(type: GGMLType, blocks: Bytes, scale: float, random: np.random.Generator) -> None:
    spread = random.uniform(1 - SCALE_SPREAD, 1 + SCALE_SPREAD, (len(blocks), 1))
    scales = (scale * spread * random.choice((-1, 1), (len(blocks), 1))).astype(np.float32)
    for at, ratio in HALVES[type]:
        blocks[:, at : at + 2] = (scales * np.float32(ratio)).astype("<f2").view(np.uint8)
    if type is GGMLType.MXFP4:
        blocks[:, 0] = _powers_of_two(scale, len(blocks), random)
    if type is GGMLType.NVFP4:
        blocks[:, :4] = _small_floats(scale * random.uniform(0.75, 1.25, (len(blocks), 4)))
    if type is GGMLType.IQ1_M:  # the high nibbles of four words make one float16
        half = scales[:, 0].astype("<f2").view("<u2")
        for word in range(4):
            nibble = (half >> 4 * word & 15).astype(np.uint8)
            blocks[:, 49 + 2 * word] = blocks[:, 49 + 2 * word] & 15 | nibble << 4


def _powers_of_two(scale: float, count: int, random: np.random.Generator) -> Bytes:
    """(count,) exponents biased by 128, two neighbours mixed so that the mean square is right."""
    low = int(np.floor(np.log2(scale)))
    upper_share = ((scale / 2.0**low) ** 2 - 1) / 3
    exponents = 128 + low + (random.random(count) < upper_share)
    return exponents.astype(np.uint8)


def _small_floats(values: NDArray[np.float64]) -> Bytes:
    """The nearest scale of NVFP4 but zero: 4 bits of exponent, 3 of mantissa, halved."""
    codes = np.arange(1, 0x7F)
    exponent, mantissa = codes >> 3, codes & 7
    table = np.where(exponent == 0, mantissa / 512, (1 + mantissa / 8) * 2.0 ** (exponent - 7)) / 2
    middles = (table[1:] + table[:-1]) / 2
    return codes[np.searchsorted(middles, values)].astype(np.uint8)
