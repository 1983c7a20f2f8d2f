"""Bytes of a tensor to float32, format by format, in plain numpy and exactly as ggml rounds.

Slow and obvious: tests compare the native kernels with it, and tools use it on small tensors.
Source: ggml-quants.c (dequantize_row_*) of llama.cpp b11549.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.gguf.quants import iq, k, legacy
from engine.gguf.types import LAYOUTS, GGMLType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


def dequantize(raw: Bytes, type: GGMLType) -> Floats:
    """raw (..., row_bytes) uint8 -> (..., elements) float32. ValueError for a type without one."""
    if type is GGMLType.F32:
        return raw.view("<f4")
    if type is GGMLType.F16:
        return raw.view("<f2").astype(np.float32)
    if type is GGMLType.BF16:
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if type not in FORMATS:
        raise ValueError(f"no reference for {type.name}")
    layout = LAYOUTS[type]
    blocks = raw.reshape(-1, layout.num_bytes)
    with np.errstate(all="ignore"):  # random blocks hold infinities; they must pass as they are
        values = FORMATS[type](blocks)
    assert values.dtype == np.float32, type.name
    return values.reshape(*raw.shape[:-1], -1)


FORMATS: dict[GGMLType, Callable[[Bytes], Floats]] = {
    GGMLType.Q4_0: legacy.q4_0,
    GGMLType.Q4_1: legacy.q4_1,
    GGMLType.Q5_0: legacy.q5_0,
    GGMLType.Q5_1: legacy.q5_1,
    GGMLType.Q8_0: legacy.q8_0,
    GGMLType.Q1_0: legacy.q1_0,
    GGMLType.Q2_0: legacy.q2_0,
    GGMLType.MXFP4: legacy.mxfp4,
    GGMLType.NVFP4: legacy.nvfp4,
    GGMLType.TQ1_0: legacy.tq1_0,
    GGMLType.TQ2_0: legacy.tq2_0,
    GGMLType.Q2_K: k.q2_k,
    GGMLType.Q3_K: k.q3_k,
    GGMLType.Q4_K: k.q4_k,
    GGMLType.Q5_K: k.q5_k,
    GGMLType.Q6_K: k.q6_k,
    GGMLType.IQ2_XXS: iq.iq2_xxs,
    GGMLType.IQ2_XS: iq.iq2_xs,
    GGMLType.IQ2_S: iq.iq2_s,
    GGMLType.IQ3_XXS: iq.iq3_xxs,
    GGMLType.IQ3_S: iq.iq3_s,
    GGMLType.IQ1_S: iq.iq1_s,
    GGMLType.IQ1_M: iq.iq1_m,
    GGMLType.IQ4_NL: iq.iq4_nl,
    GGMLType.IQ4_XS: iq.iq4_xs,
}
