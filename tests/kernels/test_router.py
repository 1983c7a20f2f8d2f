"""router_topk: order, ties, weights, extremes."""

from __future__ import annotations

import pytest
import torch

from engine.kernels import ops, reference

each_norm = pytest.mark.parametrize("normalise", [True, False])


@each_norm
@pytest.mark.parametrize(
    ("tokens", "experts", "k"), [(1, 1, 1), (5, 8, 2), (33, 128, 8), (3, 7, 7)]
)
def test_router_equals_the_reference(
    *, tokens: int, experts: int, k: int, normalise: bool, variant: str
) -> None:
    logits = torch.randn(tokens, experts, generator=torch.Generator().manual_seed(1)) * 3
    ids, weights = ops.router_topk(logits, k, normalise=normalise)
    expected_ids, expected = reference.router_topk(logits, k, normalise=normalise)
    assert torch.equal(ids, expected_ids)
    assert torch.allclose(weights, expected, rtol=2e-6, atol=1e-9)


@each_norm
def test_router_gives_ties_to_the_lower_index(normalise: bool, variant: str) -> None:
    logits = torch.tensor([[1.0, 2, 2, 1, 2], [0, 0, 0, 0, 0], [-1, -1, 5, -1, -1]])
    ids, _ = ops.router_topk(logits, 3, normalise=normalise)
    assert ids.tolist() == [[1, 2, 4], [0, 1, 2], [2, 0, 1]]


def test_router_weights_sum_to_one_when_normalised(variant: str) -> None:
    logits = torch.randn(9, 64, generator=torch.Generator().manual_seed(2))
    _, weights = ops.router_topk(logits, 6, normalise=True)
    assert torch.allclose(weights.sum(1), torch.ones(9), rtol=0, atol=1e-6)


def test_router_weights_are_shares_of_all_experts_otherwise(variant: str) -> None:
    _, weights = ops.router_topk(torch.zeros(1, 8), 2, normalise=False)
    assert torch.allclose(weights, torch.full((1, 2), 1 / 8))


@each_norm
@pytest.mark.parametrize("size", [1e4, 1e30, 3e38])
def test_router_takes_logits_of_any_size(size: float, normalise: bool, variant: str) -> None:
    logits = torch.tensor([[-1.0, 1, 0.5, -0.5]]) * size
    ids, weights = ops.router_topk(logits, 2, normalise=normalise)
    assert ids.tolist() == [[1, 2]]
    assert weights.tolist() == [[1.0, 0.0]]


def test_router_ends_on_logits_that_are_not_finite(variant: str) -> None:
    logits = torch.tensor([[float("nan")] * 4, [1, float("nan"), 2, 0], [float("inf")] * 4])
    ids, _ = ops.router_topk(logits, 3, normalise=True)
    assert all(len(set(row)) == 3 and set(row) <= {0, 1, 2, 3} for row in ids.tolist())
