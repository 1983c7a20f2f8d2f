"""linear, embedding and dequantize: every block format against the reference.

Error bounds, per output: float activations 4e-6 of sum(|x| (|w| + |min|)), which covers float32
sums of any order; int8 activations the same against a reference that sees the rounded values, and
half a rounding step of each value (max of its 32 / 254) times |w| against the exact one.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.gguf.types import LAYOUTS, GGMLType
from engine.kernels import ops, reference
from engine.kernels.ops import Activations, QuantMatrix
from helpers.weights import (
    KERNEL_TYPES,
    QUANTISED_TYPES,
    activations,
    expanded,
    random_matrix,
)

TOKENS = (1, 2, 3, 7, 17, 65)
ROWS = (1, 3, 5, 33)
FLOAT_COLS = (1, 5, 8, 13, 257, 300)
ROUNDING = 4e-6
SHAPES = [
    (type, cols)
    for type in KERNEL_TYPES
    for cols in (
        FLOAT_COLS
        if type not in QUANTISED_TYPES
        else (n * LAYOUTS[type].elements for n in (1, 3, 9))
    )
    if cols < 1000
]
each_rounding = pytest.mark.parametrize(
    "mode", [Activations.INT8, Activations.INT16], ids=lambda mode: mode.value
)
each_shape = pytest.mark.parametrize(
    ("type", "cols"), SHAPES, ids=[f"{type.name}-{cols}" for type, cols in SHAPES]
)


def magnitude(x: torch.Tensor, w: QuantMatrix) -> NDArray[np.float64]:
    """(tokens, rows): what a sum of products is a difference of, minima included."""
    weights = np.abs(expanded(w)[0])
    spread = weights.reshape(w.rows, -1, min(16, w.cols) if w.type in QUANTISED_TYPES else 1).max(
        -1
    )
    per_weight = np.repeat(spread, w.cols // spread.shape[1], axis=1)
    sums: NDArray[np.float64] = np.abs(x.double().numpy()) @ per_weight.T
    return sums


@each_shape
def test_linear_equals_the_reference_for_every_size(
    type: GGMLType, cols: int, variant: str
) -> None:
    w, x = random_matrix(type, max(ROWS), cols), activations(max(TOKENS), cols)
    expected = reference.linear(x, w)
    bound = torch.from_numpy(ROUNDING * magnitude(x, w))
    for tokens in TOKENS:
        for rows in ROWS:
            actual = ops.linear(x[:tokens], w.row_range(0, rows))
            error = (actual - expected[:tokens, :rows]).abs()
            assert actual.shape == (tokens, rows)
            assert bool((error <= bound[:tokens, :rows]).all()), (tokens, rows, error.max())


@each_shape
@each_rounding
def test_linear_rounds_activations_as_the_reference_does(
    mode: Activations, type: GGMLType, cols: int, variant: str
) -> None:
    w, x = random_matrix(type, max(ROWS), cols), activations(max(TOKENS), cols)
    expected = reference.linear(x, w, mode)
    bound = torch.from_numpy(ROUNDING * magnitude(x, w))
    for tokens in TOKENS:
        for rows in ROWS:
            actual = ops.linear(x[:tokens], w.row_range(0, rows), mode)
            error = (actual - expected[:tokens, :rows]).abs()
            assert bool((error <= bound[:tokens, :rows]).all()), (tokens, rows, error.max())


@pytest.mark.parametrize("type", QUANTISED_TYPES, ids=lambda type: type.name)
@each_rounding
def test_rounded_activations_keep_their_bound(
    mode: Activations, type: GGMLType, variant: str
) -> None:
    w, x = random_matrix(type, 33, 3 * 256), activations(17, 3 * 256)
    steps = np.abs(x.numpy().reshape(17, -1, 32)).max(-1).repeat(32, axis=1) / (2 * mode.levels)
    bound = steps @ np.abs(expanded(w)[0]).T + ROUNDING * magnitude(x, w)
    error = (ops.linear(x, w, mode) - reference.linear(x, w)).abs().numpy()
    assert np.all(error <= bound)
    assert np.any(error > 0)


@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.F16, GGMLType.BF16])
@each_rounding
def test_float_weights_see_float_activations(
    mode: Activations, type: GGMLType, variant: str
) -> None:
    w, x = random_matrix(type, 5, 64), activations(3, 64)
    assert torch.equal(ops.linear(x, w, mode), ops.linear(x, w))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("mode", Activations)
@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.Q8_0, GGMLType.Q4_K])
def test_values_that_are_not_finite_poison_their_token_alone(
    type: GGMLType, mode: Activations, bad: float, variant: str
) -> None:
    w, x = random_matrix(type, 33, 512), activations(3, 512)
    clean = ops.linear(x, w, mode)
    x[1, 100] = bad
    poisoned = ops.linear(x, w, mode)
    assert not bool(poisoned[1].isfinite().any())
    assert torch.equal(poisoned[::2], clean[::2])


@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-38, 1e-30, 1e30])
@each_rounding
def test_activations_of_any_size_can_be_rounded(
    mode: Activations, size: float, variant: str
) -> None:
    w, x = random_matrix(GGMLType.Q8_0, 33, 64), activations(3, 64) * size
    actual, expected = ops.linear(x, w, mode), reference.linear(x, w, mode)
    assert torch.allclose(actual, expected, rtol=1e-4, atol=max(1e-35, 1e-4 * size))


def test_no_tokens_give_no_rows(variant: str) -> None:
    assert ops.linear(torch.empty(0, 64), random_matrix(GGMLType.Q8_0, 5, 64)).shape == (0, 5)


@pytest.mark.parametrize("type", KERNEL_TYPES, ids=lambda type: type.name)
def test_embedding_takes_rows(type: GGMLType, variant: str) -> None:
    w = random_matrix(type, 40, 2 * LAYOUTS[type].elements)
    ids = torch.tensor([39, 0, 7, 7, 12])
    assert torch.equal(ops.embedding(ids, w), reference.embedding(ids, w))
    assert ops.embedding(ids[:0], w).shape == (0, w.cols)


def test_dequantize_takes_a_stack_apart(variant: str) -> None:
    w = random_matrix(GGMLType.Q4_K, 3, 512, experts=4)
    assert torch.equal(ops.dequantize(w), reference.dequantize(w))
