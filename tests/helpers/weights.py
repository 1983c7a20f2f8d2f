"""Random quantised matrices for tests of the kernels, of every type and with finite values."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from engine.gguf.quants import dequantize
from engine.gguf.types import LAYOUTS, GGMLType, row_bytes
from engine.kernels import _native
from engine.kernels.ops import QuantMatrix

KERNEL_TYPES = tuple(type for type in GGMLType if _native.has_type(int(type)))
QUANTISED_TYPES = tuple(type for type in KERNEL_TYPES if LAYOUTS[type].elements > 1)
HALF_SCALES: dict[GGMLType, tuple[int, ...]] = {  # bytes of a block where a float16 lies
    GGMLType.Q4_1: (0, 2),
    GGMLType.Q5_1: (0, 2),
    GGMLType.Q2_K: (80, 82),
    GGMLType.Q3_K: (108,),
    GGMLType.Q4_K: (0, 2),
    GGMLType.Q5_K: (0, 2),
    GGMLType.Q6_K: (208,),
    GGMLType.TQ1_0: (52,),
    GGMLType.TQ2_0: (64,),
    **dict.fromkeys((GGMLType.F32, GGMLType.BF16, GGMLType.F16), ()),
    **dict.fromkeys((GGMLType.MXFP4, GGMLType.NVFP4, GGMLType.IQ1_M), ()),
}


def random_matrix(
    type: GGMLType, rows: int, cols: int, *, experts: int = 1, seed: int = 0
) -> QuantMatrix:
    """Random codes under scales of ordinary size: every weight is finite."""
    random = np.random.default_rng(seed)
    shape = (experts * rows, row_bytes(type, cols))
    data = random_rows(type, shape, random).reshape(-1)
    return QuantMatrix(data=data, type=type, rows=rows, cols=cols, num_experts=experts)


def random_rows(
    type: GGMLType, shape: tuple[int, int], random: np.random.Generator
) -> NDArray[np.uint8]:
    """(rows, row_bytes) uint8."""
    if type is GGMLType.F32:
        return random.standard_normal((shape[0], shape[1] // 4), np.float32).view(np.uint8)
    if type is GGMLType.F16:
        halves = random.standard_normal((shape[0], shape[1] // 2), np.float32).astype(np.float16)
        return halves.view(np.uint8)
    if type is GGMLType.BF16:
        floats = random.standard_normal((shape[0], shape[1] // 2), np.float32)
        return (floats.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    size = LAYOUTS[type].num_bytes
    blocks = random.integers(0, 256, (shape[0] * shape[1] // size, size), np.uint8)
    _set_scales(type, blocks, random)
    return blocks.reshape(shape)


def _set_scales(type: GGMLType, blocks: NDArray[np.uint8], random: np.random.Generator) -> None:
    for at in HALF_SCALES.get(type, (0,)):
        scales = random.uniform(0.01, 0.1, (len(blocks), 1)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8)
    if type is GGMLType.MXFP4:
        blocks[:, 0] = random.integers(118, 128, len(blocks))
    if type is GGMLType.IQ1_M:  # the four high nibbles of the scale words make a float16
        scale = random.uniform(0.01, 0.1, len(blocks)).astype(np.float16).view(np.uint16)
        for word in range(4):
            nibble = (scale >> 4 * word & 15).astype(np.uint8)
            blocks[:, 49 + 2 * word] = blocks[:, 49 + 2 * word] & 15 | nibble << 4


def expanded(w: QuantMatrix) -> NDArray[np.float64]:
    """(num_experts, rows, cols) float64."""
    raw = w.data.reshape(-1, row_bytes(w.type, w.cols))
    values = dequantize(raw, w.type).astype(np.float64)
    return values.reshape(w.num_experts, w.rows, w.cols)


def activations(tokens: int, cols: int, *, seed: int = 1) -> torch.Tensor:
    """(tokens, cols) float32, with the odd large value that real activations have."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((tokens, cols)).astype(np.float32)
    values[:, :: max(1, cols // 3)] *= 8
    return torch.from_numpy(values)
