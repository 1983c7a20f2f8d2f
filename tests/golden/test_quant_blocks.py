"""Block formats bit for bit: numpy reference, native kernels and quantisers against ggml's own.

vectors/quant_blocks.npz holds, for 23 types, rows that ggml quantised (`raw`), random block bytes
(`rand`, infinities and NaN included) and what ggml expands both to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from engine.gguf.quants import dequantize, quantize
from engine.gguf.types import LAYOUTS, GGMLType
from engine.kernels import ops
from engine.kernels.ops import QuantMatrix
from helpers.weights import KERNEL_TYPES

VECTORS = np.load(Path(__file__).parent / "vectors" / "quant_blocks.npz")
GOLDEN_TYPES = sorted(
    {name.split("_raw")[0].removesuffix("_rand") for name in VECTORS.files if name.endswith("_raw")}
)
KINDS = ("", "rand_")
QUANTISERS = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "F16", "BF16", "F32")


def golden(type: str, kind: str) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Bytes and the floats that ggml makes of them."""
    return VECTORS[f"{type}_{kind}raw"], VECTORS[f"{type}_{kind}deq"]


def same_bits(actual: NDArray[np.float32], expected: NDArray[np.float32]) -> bool:
    """Equal bit for bit; which NaN a NaN is does not matter."""
    assert actual.dtype == expected.dtype == np.float32
    assert actual.shape == expected.shape
    equal = actual.view(np.uint32) == expected.view(np.uint32)
    return bool(np.all(equal | np.isnan(actual) & np.isnan(expected)))


def native(raw: NDArray[np.uint8], type: GGMLType) -> NDArray[np.float32]:
    """(rows, row_bytes) -> (rows, cols) by the variant in use."""
    layout = LAYOUTS[type]
    cols = raw.shape[1] // layout.num_bytes * layout.elements
    matrix = QuantMatrix(data=raw.reshape(-1).copy(), type=type, rows=len(raw), cols=cols)
    return np.asarray(ops.dequantize(matrix))


@pytest.fixture(params=ops.variants())
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    before = ops.variant()
    ops.set_variant(request.param)
    yield request.param
    ops.set_variant(before)


def test_vectors_cover_the_quantised_types() -> None:
    missing = {type.name for type in KERNEL_TYPES} - set(GOLDEN_TYPES)
    assert len(GOLDEN_TYPES) == 23
    assert missing == {"F32", "F16", "BF16", "Q4_1", "Q5_1"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type", GOLDEN_TYPES)
def test_reference_dequantises_as_ggml(type: str, kind: str) -> None:
    raw, expected = golden(type, kind)
    assert same_bits(dequantize(raw, GGMLType[type]), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type", GOLDEN_TYPES)
def test_native_dequantises_as_ggml(type: str, kind: str, variant: str) -> None:
    raw, expected = golden(type, kind)
    assert same_bits(native(raw, GGMLType[type]), expected)


@pytest.mark.parametrize("type", KERNEL_TYPES, ids=lambda type: type.name)
def test_native_equals_the_reference_on_random_bytes(type: GGMLType, variant: str) -> None:
    layout = LAYOUTS[type]
    per_row = max(2, 256 // layout.elements)
    random = np.random.default_rng(int(type))
    raw = random.integers(0, 256, (64, per_row * layout.num_bytes), np.uint8)
    assert same_bits(native(raw, type), np.array(dequantize(raw, type)))


@pytest.mark.parametrize("type", QUANTISERS)
def test_quantiser_writes_the_bytes_of_the_gguf_package(type: str) -> None:
    random = np.random.default_rng(5)
    values = random.standard_normal((64, 96)).astype(np.float32) * 10 ** random.uniform(-3, 3)
    values[0] = 0
    values[1, ::7] = -values[1, ::7]
    values[2] = np.abs(values[2])
    expected = gguf.quants.quantize(values, gguf.GGMLQuantizationType[type])
    assert np.array_equal(quantize(values, GGMLType[type]), expected.view(np.uint8))


@pytest.mark.parametrize("type", ["Q8_0", "Q4_0", "Q5_0"])
def test_quantiser_and_dequantiser_agree(type: str) -> None:
    values = np.random.default_rng(6).standard_normal((32, 64)).astype(np.float32)
    again = dequantize(quantize(values, GGMLType[type]), GGMLType[type])
    steps = {"Q8_0": 1 / 127, "Q4_0": 1 / 8, "Q5_0": 1 / 16}[type]
    most = np.abs(values.reshape(32, 2, 32)).max(-1).repeat(32, axis=1)
    assert np.all(np.abs(again - values) <= most * steps * 1.01)


@pytest.mark.parametrize("type", [GGMLType.Q8_1, GGMLType.Q8_K, GGMLType.I32])
def test_types_without_a_format_are_refused(type: GGMLType) -> None:
    with pytest.raises(ValueError, match=type.name):
        dequantize(np.zeros((1, LAYOUTS[type].num_bytes), np.uint8), type)
    with pytest.raises(ValueError, match=type.name):
        quantize(np.zeros((1, 256), np.float32), type)
