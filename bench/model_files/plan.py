"""A planned tensor and how its bytes come about; shared by all families, which only plan.

A family lists `PlannedTensor`s: names, shapes, the role that decides the type, and a filling.
`sources` turns them into what the GGUF writer takes. What a tensor holds depends on the seed and on
its name alone, so a model with other layers, types of other tensors, or fused experts has the same
weights where it has the same tensors.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from math import prod

import numpy as np
from numpy.typing import NDArray

from bench.model_files.blocks import TYPES, RandomBlocks
from engine.gguf.quants import quantize
from engine.gguf.types import LAYOUTS, GGMLType, row_bytes
from engine.gguf.writer import TensorSource

Floats = NDArray[np.float32]
LOW_BIT = (
    *(GGMLType.IQ1_S, GGMLType.IQ1_M, GGMLType.IQ2_XXS, GGMLType.IQ2_XS, GGMLType.IQ2_S),
    *(GGMLType.IQ3_XXS, GGMLType.IQ3_S, GGMLType.IQ4_XS, GGMLType.Q2_K, GGMLType.Q3_K),
    *(GGMLType.Q1_0, GGMLType.Q2_0),
)
# What a row too short for its type is stored as; a row that fits no block is F16.
# Source: llama.cpp b11549, src/llama-quant.cpp; Q1_0, Q2_0 and NVFP4 are ours, by nearest size.
FALLBACKS: dict[GGMLType, GGMLType] = {
    **dict.fromkeys(LOW_BIT, GGMLType.IQ4_NL),
    GGMLType.NVFP4: GGMLType.MXFP4,
    GGMLType.TQ1_0: GGMLType.Q4_0,
    GGMLType.TQ2_0: GGMLType.Q4_0,
    GGMLType.Q4_K: GGMLType.Q5_0,
    GGMLType.Q5_K: GGMLType.Q5_1,
    GGMLType.Q6_K: GGMLType.Q8_0,
}


class Role(Enum):
    """What a tensor is for; `--types` gives each role a type by these names."""

    EXPERTS = "experts"  # gate and up of routed experts
    DOWN = "down"  # down of routed experts; the type of `experts` unless given
    SHARED = "shared"  # shared experts
    TRUNK = "trunk"  # all other matrices
    INDEX = "index"  # projections of the sparse index
    EMBEDDING = "embedding"
    HEAD = "head"
    NGRAM = "ngram"  # the n-gram table
    CONV = "conv"  # convolution after the n-gram embedding
    SMALL = "small"  # norms, routers, gates: always F32


DEFAULT_TYPES: Mapping[Role, GGMLType] = {
    Role.EXPERTS: GGMLType.IQ2_XXS,
    Role.SHARED: GGMLType.Q8_0,
    Role.TRUNK: GGMLType.Q8_0,
    Role.INDEX: GGMLType.BF16,
    Role.EMBEDDING: GGMLType.Q8_0,
    Role.HEAD: GGMLType.Q6_K,
    Role.NGRAM: GGMLType.IQ4_NL,
    Role.CONV: GGMLType.F32,
}


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Independent weights of root mean square `rms`, of any type."""

    rms: float


@dataclass(frozen=True, slots=True)
class Computed:
    """Values (rows, cols) or (dim,) from a function of a random generator; small tensors only."""

    values: Callable[[np.random.Generator], Floats]


@dataclass(frozen=True, slots=True)
class Fused:
    """Per expert the rows of one planned tensor, then those of another."""

    parts: tuple[PlannedTensor, PlannedTensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTensor:
    """`shape` in GGUF order: row length first."""

    name: str
    shape: tuple[int, ...]
    role: Role
    filling: Gaussian | Computed | Fused


def parse_types(text: str) -> dict[Role, GGMLType]:
    """`experts=Q2_0,trunk=Q8_0` over the defaults. ValueError names what is wrong."""
    chosen = dict(DEFAULT_TYPES)
    roles = {role.value: role for role in Role if role is not Role.SMALL}
    types = {type.name: type for type in TYPES}
    for item in filter(None, text.split(",")):
        role, _, type = item.partition("=")
        if role not in roles:
            raise ValueError(f"unknown role {role!r}; known: {', '.join(roles)}")
        if type not in types:
            raise ValueError(f"unknown type {type!r} for {role}; known: {', '.join(types)}")
        chosen[roles[role]] = types[type]
    chosen.setdefault(Role.DOWN, chosen[Role.EXPERTS])
    return chosen


def stored_type(tensor: PlannedTensor, types: Mapping[Role, GGMLType]) -> GGMLType:
    """The type asked for, or what real files use where rows are not whole blocks of it."""
    if tensor.role is Role.SMALL:
        return GGMLType.F32
    type = types[tensor.role]
    if tensor.shape[0] % LAYOUTS[type].elements:
        type = FALLBACKS.get(type, GGMLType.F16)
    return GGMLType.F16 if tensor.shape[0] % LAYOUTS[type].elements else type


def sources(
    tensors: Iterable[PlannedTensor], types: Mapping[Role, GGMLType], seed: int
) -> list[TensorSource]:
    """What to write, in order."""
    return [_source(tensor, stored_type(tensor, types), seed) for tensor in tensors]


def _source(tensor: PlannedTensor, type: GGMLType, seed: int) -> TensorSource:
    return TensorSource(
        name=tensor.name,
        shape=tensor.shape,
        type=type,
        produce=lambda: _pieces(tensor, type, seed),
    )


def _pieces(
    tensor: PlannedTensor, type: GGMLType, seed: int
) -> Iterator[NDArray[np.generic] | bytes]:
    random = np.random.default_rng((seed, zlib.crc32(tensor.name.encode())))
    match tensor.filling:
        case Gaussian(rms):
            blocks = prod(tensor.shape) // LAYOUTS[type].elements
            yield from RandomBlocks(type, rms, blocks).pieces(random)
        case Computed(values):
            made = values(random)
            assert made.shape == tensor.shape[::-1], f"{tensor.name}: {made.shape}"
            yield quantize(made, type)
        case Fused(parts):
            each = [_experts(part, type, seed) for part in parts]
            yield from chain.from_iterable(zip(*each, strict=True))


def _experts(tensor: PlannedTensor, type: GGMLType, seed: int) -> Iterator[bytes]:
    """The bytes of one expert after the other, cut from pieces of any size."""
    cols, rows, _ = tensor.shape
    size = row_bytes(type, cols) * rows
    held = bytearray()
    for piece in _pieces(tensor, type, seed):
        held += piece if isinstance(piece, bytes) else piece.tobytes()
        whole = len(held) // size
        yield from (bytes(held[i * size : (i + 1) * size]) for i in range(whole))
        del held[: whole * size]
    assert not held, f"{tensor.name}: {len(held)} bytes beyond its last expert"
