"""Gates over streams against the reference, extremes included, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from engine.errors import ShapeError
from engine.kernels import ops, reference

SHAPES = [(1, 1, 1), (3, 4, 7), (17, 2, 64), (2, 4, 2560), (0, 4, 8)]
EXTREMES = torch.tensor([-3e38, -1e30, -1000.0, -88.0, -86.0, 0.0, 86.0, 1000.0, 3e38])
each_shape = pytest.mark.parametrize("shape", SHAPES)


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def close(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.allclose(actual, expected, rtol=2e-6, atol=2e-6)


@each_shape
def test_rms_norm_in_groups_equals_the_reference(shape: tuple[int, int, int], variant: str) -> None:
    x, weight = normal(*shape), normal(*shape[1:], seed=2)
    assert close(ops.rms_norm(x, weight, 1e-6), reference.rms_norm(x, weight, 1e-6))
    for group in range(shape[1]):
        alone = ops.rms_norm(x[:, group].contiguous(), weight[group].contiguous(), 1e-6)
        assert torch.equal(ops.rms_norm(x, weight, 1e-6)[:, group], alone)


def test_gates_open_and_shut_at_any_size(variant: str) -> None:
    ones, expected = torch.ones_like(EXTREMES), torch.ones_like(EXTREMES)
    ops.sigmoid_gate(ones, EXTREMES)
    reference.sigmoid_gate(expected, EXTREMES)
    assert torch.allclose(ones, expected, rtol=1e-6, atol=1e-35)


@each_shape
def test_sigmoid_gate_equals_the_reference(shape: tuple[int, ...], variant: str) -> None:
    x, gate = normal(*shape), normal(*shape, seed=2) * 5
    expected = x.clone()
    reference.sigmoid_gate(expected, gate)
    ops.sigmoid_gate(x, gate)
    assert close(x, expected)


@each_shape
def test_gated_norm_equals_the_reference(shape: tuple[int, int, int], variant: str) -> None:
    tokens, heads, dim = shape
    x, weight, gate = normal(*shape), normal(dim, seed=2), normal(tokens, heads * dim, seed=3) * 5
    assert close(ops.gated_norm(x, weight, 1e-6, gate), reference.gated_norm(x, weight, 1e-6, gate))


@each_shape
def test_gated_add_equals_the_reference(shape: tuple[int, int, int], variant: str) -> None:
    tokens, streams, dim = shape
    acc, y, logits = normal(*shape), normal(tokens, dim, seed=2), normal(tokens, streams, seed=3)
    expected = acc.clone()
    reference.gated_add(expected, y, logits, scale=0.25, gain=2.0)
    ops.gated_add(acc, y, logits, scale=0.25, gain=2.0)
    assert close(acc, expected)


@each_shape
def test_ngram_gates_equal_the_reference(shape: tuple[int, int, int], variant: str) -> None:
    keys, queries = normal(*shape), normal(*shape, seed=2)
    actual, expected = ops.ngram_gates(keys, queries), reference.ngram_gates(keys, queries)
    assert torch.allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_ngram_gates_of_products_near_zero_keep_their_sign(variant: str) -> None:
    keys = torch.tensor([-1e-9, 0.0, 1e-9])[:, None, None].expand(3, 1, 8).contiguous()
    gates = ops.ngram_gates(keys, torch.ones(3, 1, 8)).flatten()
    assert torch.allclose(gates, torch.sigmoid(torch.tensor([-1e-3, 0.0, 1e-3])), atol=1e-7)
    assert gates[0] < gates[1] < gates[2]


def test_gates_pass_nan_on_and_keep_it_to_its_token(variant: str) -> None:
    x = normal(3, 4, 16)
    x[1, 2, 5] = float("nan")
    gated = ops.gated_norm(x, normal(16), 1e-6, normal(3, 64, seed=2))
    assert gated.isnan().any(1).tolist() == [False, True, False]
    assert ops.ngram_gates(x, normal(3, 4, 16, seed=3)).isnan().any(1).tolist() == [
        *(False, True, False)
    ]


@pytest.mark.parametrize("width", [3, 16])  # in a vector's rest, and in vectors
def test_a_nan_gate_is_seen_in_what_it_gates_alone(width: int, variant: str) -> None:
    gates = torch.zeros(3, width)
    gates[1, 2] = float("nan")
    x = torch.ones(3, width)
    ops.sigmoid_gate(x, gates)
    assert torch.equal(x.isnan(), gates.isnan())
    normed = ops.gated_norm(torch.ones(3, 1, width), torch.ones(width), 1e-6, gates)
    assert torch.equal(normed.isnan(), gates.isnan())
    acc = torch.ones(3, width, 2)
    ops.gated_add(acc, torch.ones(3, 2), gates, scale=0.25, gain=2.0)
    assert torch.equal(acc.isnan(), gates.isnan()[:, :, None].expand(3, width, 2))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ops.rms_norm(normal(2, 3, 8), normal(2, 8), 1e-6), "x"),
        (lambda: ops.rms_norm(normal(8), normal(1, 1, 8), 1e-6), "weight"),
        (lambda: ops.gated_norm(normal(2, 4, 8), normal(7), 1e-6, normal(2, 32)), "weight"),
        (lambda: ops.gated_norm(normal(2, 4, 8), normal(8), 1e-6, normal(2, 31)), "gate"),
        (lambda: ops.gated_norm(normal(2, 4, 0), normal(0), 1e-6, normal(2, 0)), "x"),
        (lambda: ops.sigmoid_gate(normal(4), normal(5)), "gate"),
        (lambda: ops.sigmoid_gate(normal(4, 4).t(), normal(4, 4)), "x"),
        (lambda: ops.gated_add(normal(2, 4, 8), normal(2, 7), normal(2, 4), scale=1, gain=1), "y"),
        (
            lambda: ops.gated_add(normal(2, 4, 8), normal(2, 8), normal(2, 3), scale=1, gain=1),
            "logits",
        ),
        (lambda: ops.ngram_gates(normal(2, 4, 8), normal(2, 4, 7)), "queries"),
    ],
)
def test_wrong_shapes_are_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(ShapeError, match=f"^{name}: "):
        call()
