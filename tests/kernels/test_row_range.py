"""QuantMatrix.row_range: the same rows of every expert of a fused stack, without a copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.errors import ShapeError
from engine.gguf.types import GGMLType
from engine.kernels import ops, reference
from engine.kernels.ops import Activations, QuantMatrix
from helpers.weights import KERNEL_TYPES, activations, random_matrix

EXPERTS, FF, HIDDEN = 5, 64, 256
each_mode = pytest.mark.parametrize("mode", Activations, ids=lambda mode: mode.value)
each_type = pytest.mark.parametrize("type", KERNEL_TYPES, ids=lambda type: type.name)


def fused(gate: QuantMatrix, up: QuantMatrix) -> QuantMatrix:
    """One stack whose experts hold the rows of gate, then those of up."""
    halves = [w.data.reshape(w.num_experts, -1) for w in (gate, up)]
    data = np.concatenate(halves, axis=1).reshape(-1)
    rows = gate.rows + up.rows
    return QuantMatrix(
        data=data, type=gate.type, rows=rows, cols=gate.cols, num_experts=gate.num_experts
    )


@each_mode
@each_type
def test_fused_stack_gives_the_bits_of_separate_stacks(
    type: GGMLType, mode: Activations, variant: str
) -> None:
    gate, up = (random_matrix(type, FF, HIDDEN, experts=EXPERTS, seed=seed) for seed in (1, 2))
    down = random_matrix(GGMLType.Q8_0, HIDDEN, FF, experts=EXPERTS, seed=3)
    both = fused(gate, up)
    ids = torch.tensor([[0, 4], [3, 1], [4, 2]], dtype=torch.int32)
    x, weights = activations(3, HIDDEN) * 0.1, torch.linspace(0.1, 0.9, 6).view(3, 2)
    halves = both.row_range(0, FF), both.row_range(FF, FF)
    actual = ops.expert_ffn(x, *halves, down, ids, weights, mode)
    assert torch.equal(actual, ops.expert_ffn(x, gate, up, down, ids, weights, mode))


def test_expert_ffn_of_a_fused_stack_equals_the_reference(variant: str) -> None:
    both = random_matrix(GGMLType.Q5_K, 2 * FF, HIDDEN, experts=EXPERTS)
    down = random_matrix(GGMLType.Q5_0, HIDDEN, FF, experts=EXPERTS, seed=3)
    ids, weights = torch.tensor([[0, 4], [3, 1]], dtype=torch.int32), torch.tensor([[0.2, 0.9]] * 2)
    args = (both.row_range(0, FF), both.row_range(FF, FF), down, ids, weights)
    x = activations(2, HIDDEN) * 0.1
    actual, expected = ops.expert_ffn(x, *args), reference.expert_ffn(x, *args)
    assert float((actual - expected).abs().max()) <= 2e-5 * float(expected.abs().max())


@each_type
def test_dequantize_takes_a_range_of_every_expert(type: GGMLType, variant: str) -> None:
    w = random_matrix(type, 7, 256, experts=3)
    part = w.row_range(2, 4)
    expected = ops.dequantize(w).view(3, 7, 256)[:, 2:6].reshape(12, 256)
    assert torch.equal(ops.dequantize(part), expected)
    assert torch.equal(reference.dequantize(part), expected)


@each_mode
def test_linear_takes_a_range_of_rows(mode: Activations, variant: str) -> None:
    w, x = random_matrix(GGMLType.Q4_K, 70, 512), activations(3, 512)
    assert torch.equal(ops.linear(x, w.row_range(37, 33), mode), ops.linear(x, w, mode)[:, 37:])


def test_embedding_takes_a_range_of_rows(variant: str) -> None:
    w, ids = random_matrix(GGMLType.Q6_K, 20, 256), torch.tensor([0, 4, 2])
    part = w.row_range(11, 5)
    assert torch.equal(ops.embedding(ids, part), ops.embedding(ids + 11, w))
    with pytest.raises(ShapeError, match=r"ids: a row outside 0\.\.4"):
        ops.embedding(torch.tensor([5]), part)


def test_range_is_a_view_that_counts_its_own_bytes() -> None:
    w = random_matrix(GGMLType.Q8_0, 10, 64, experts=3)
    part = w.row_range(4, 3)
    assert np.shares_memory(part.data, w.data)
    assert (part.rows, part.num_experts) == (3, 3)
    assert part.num_bytes == 3 * part.expert_bytes == 3 * 3 * 68
    assert part.data.size == (2 * 10 + 3) * 68


def test_range_of_a_range_counts_from_its_first_row() -> None:
    w = random_matrix(GGMLType.Q4_0, 10, 32, experts=3)
    nested, direct = w.row_range(2, 7).row_range(3, 2), w.row_range(5, 2)
    assert torch.equal(ops.dequantize(nested), ops.dequantize(direct))
    assert nested.native == direct.native


def test_range_of_all_rows_is_the_matrix() -> None:
    w = random_matrix(GGMLType.Q4_0, 10, 32, experts=3)
    assert w.row_range(0, 10).native == w.native


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (0, 0), (0, 11), (9, 2), (10, 1), (3, -1)])
def test_rows_that_are_not_there_are_refused(first: int, count: int) -> None:
    w = random_matrix(GGMLType.Q4_0, 10, 32, experts=3)
    with pytest.raises(ShapeError, match=f"row_range: {count} rows from {first} on, of 10"):
        w.row_range(first, count)


@pytest.mark.parametrize(
    ("stride", "size", "message"),
    [
        (67, 2 * 68, "expert_stride: 67 bytes, an expert has 68"),
        (-68, 2 * 68, "expert_stride: -68 bytes, an expert has 68"),
        (100, 200, "weight data has 200 bytes, 168 expected"),
        (100, 136, "weight data has 136 bytes, 168 expected"),
    ],
)
def test_stride_that_does_not_fit_is_refused(stride: int, size: int, message: str) -> None:
    data = np.zeros(size, np.uint8)
    with pytest.raises(ShapeError, match=message):
        QuantMatrix(
            data=data, type=GGMLType.Q8_0, rows=2, cols=32, num_experts=2, expert_stride=stride
        )
