"""rope: both styles, partial rotation, and positions where float32 angles would be useless."""

from __future__ import annotations

import pytest
import torch

from engine.kernels import ops, reference
from engine.kernels.ops import RopeStyle

POSITIONS = (0, 1, 17, 4095, 32768, 131071, 262143)
each_style = pytest.mark.parametrize("style", RopeStyle, ids=lambda style: style.value)


def frequencies(dims: int, base: float = 1e6) -> torch.Tensor:
    """(dims / 2,) float64."""
    return base ** -(torch.arange(0, dims, 2, dtype=torch.float64) / dims)


def heads(head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One token of three heads for each position."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(len(POSITIONS), 3, head_dim, generator=generator)
    return x, torch.tensor(POSITIONS, dtype=torch.int32)


@each_style
@pytest.mark.parametrize(("head_dim", "dims"), [(16, 16), (128, 128), (128, 64), (24, 2)])
def test_rope_equals_the_reference(
    head_dim: int, dims: int, style: RopeStyle, variant: str
) -> None:
    x, positions = heads(head_dim)
    expected = x.clone()
    ops.rope(x, positions, frequencies(dims), style)
    reference.rope(expected, positions, frequencies(dims), style)
    assert torch.allclose(x, expected, rtol=0, atol=2e-6)


@each_style
def test_rope_leaves_position_zero_and_the_rest_of_the_head(style: RopeStyle, variant: str) -> None:
    x, positions = heads(64)
    before = x.clone()
    ops.rope(x, positions, frequencies(32), style)
    assert torch.equal(x[0], before[0])
    assert torch.equal(x[..., 32:], before[..., 32:])
    assert not torch.equal(x[1:, :, :32], before[1:, :, :32])


def test_rope_turns_the_pairs_of_its_style(variant: str) -> None:
    quarter = torch.tensor([torch.pi / 2, 0.0], dtype=torch.float64)
    position = torch.ones(1, dtype=torch.int32)
    neighbours, halves = torch.tensor([[[1.0, 2, 3, 4]]]), torch.tensor([[[1.0, 2, 3, 4]]])
    ops.rope(neighbours, position, quarter, RopeStyle.NORM)
    ops.rope(halves, position, quarter, RopeStyle.NEOX)
    assert torch.allclose(neighbours, torch.tensor([[[-2.0, 1, 3, 4]]]))
    assert torch.allclose(halves, torch.tensor([[[-3.0, 2, 1, 4]]]))


@each_style
def test_rope_makes_scores_depend_on_distance_alone(style: RopeStyle, variant: str) -> None:
    x = torch.randn(2, 1, 64, generator=torch.Generator().manual_seed(2))
    scores = []
    for start in (0, 1000, 262100):
        turned = x.clone()
        places = torch.tensor([start, start + 43], dtype=torch.int32)
        ops.rope(turned, places, frequencies(64), style)
        scores.append(float(turned[0, 0].double() @ turned[1, 0].double()))
    assert max(scores) - min(scores) < 1e-5
