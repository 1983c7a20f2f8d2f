"""The ggml tensor types: id, block size, bytes, and whether we read them.

Owned constants only; used by everything that touches tensor bytes.
Source: ggml.h (enum ggml_type) and ggml-common.h of llama.cpp b11549; ids 41 and 42 from pull
request 24448.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType


class GGMLType(IntEnum):
    """Tensor types that a GGUF file may name and that we know the layout of."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q8_1 = 9
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    Q8_K = 15
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    I8 = 24
    I16 = 25
    I32 = 26
    I64 = 27
    F64 = 28
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39
    NVFP4 = 40
    Q1_0 = 41
    Q2_0 = 42


# Ids that files of the past used and ggml no longer reads; refused by name.
REMOVED_TYPES: Mapping[int, str] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
    }
)


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """Weights in a block and the bytes they take."""

    elements: int
    num_bytes: int

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.num_bytes / self.elements


LAYOUTS: Mapping[GGMLType, BlockLayout] = MappingProxyType(
    {
        GGMLType.F32: BlockLayout(1, 4),
        GGMLType.F16: BlockLayout(1, 2),
        GGMLType.Q4_0: BlockLayout(32, 18),
        GGMLType.Q4_1: BlockLayout(32, 20),
        GGMLType.Q5_0: BlockLayout(32, 22),
        GGMLType.Q5_1: BlockLayout(32, 24),
        GGMLType.Q8_0: BlockLayout(32, 34),
        GGMLType.Q8_1: BlockLayout(32, 36),
        GGMLType.Q2_K: BlockLayout(256, 84),
        GGMLType.Q3_K: BlockLayout(256, 110),
        GGMLType.Q4_K: BlockLayout(256, 144),
        GGMLType.Q5_K: BlockLayout(256, 176),
        GGMLType.Q6_K: BlockLayout(256, 210),
        GGMLType.Q8_K: BlockLayout(256, 292),
        GGMLType.IQ2_XXS: BlockLayout(256, 66),
        GGMLType.IQ2_XS: BlockLayout(256, 74),
        GGMLType.IQ3_XXS: BlockLayout(256, 98),
        GGMLType.IQ1_S: BlockLayout(256, 50),
        GGMLType.IQ4_NL: BlockLayout(32, 18),
        GGMLType.IQ3_S: BlockLayout(256, 110),
        GGMLType.IQ2_S: BlockLayout(256, 82),
        GGMLType.IQ4_XS: BlockLayout(256, 136),
        GGMLType.I8: BlockLayout(1, 1),
        GGMLType.I16: BlockLayout(1, 2),
        GGMLType.I32: BlockLayout(1, 4),
        GGMLType.I64: BlockLayout(1, 8),
        GGMLType.F64: BlockLayout(1, 8),
        GGMLType.IQ1_M: BlockLayout(256, 56),
        GGMLType.BF16: BlockLayout(1, 2),
        GGMLType.TQ1_0: BlockLayout(256, 54),
        GGMLType.TQ2_0: BlockLayout(256, 66),
        GGMLType.MXFP4: BlockLayout(32, 17),
        GGMLType.NVFP4: BlockLayout(64, 36),
        GGMLType.Q1_0: BlockLayout(128, 18),
        GGMLType.Q2_0: BlockLayout(64, 18),
    }
)


def row_bytes(type: GGMLType, elements: int) -> int:
    """Bytes of a row of `elements` weights; ValueError if it is not a whole number of blocks."""
    layout = LAYOUTS[type]
    if elements % layout.elements:
        raise ValueError(
            f"a row of {elements} is not a multiple of {layout.elements}, the block of {type.name}"
        )
    return elements // layout.elements * layout.num_bytes
