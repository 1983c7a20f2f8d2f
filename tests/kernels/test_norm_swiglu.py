"""rms_norm and swiglu against the reference, extremes included."""

from __future__ import annotations

import pytest
import torch

from engine.kernels import ops, reference


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (17, 64), (2, 5, 16), (40, 2048), (129,)])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_rms_norm_equals_the_reference(shape: tuple[int, ...], size: float, variant: str) -> None:
    x, weight = normal(*shape) * size, normal(shape[-1], seed=2)
    actual = ops.rms_norm(x, weight, 1e-6)
    assert actual.shape == shape
    assert torch.allclose(actual, reference.rms_norm(x, weight, 1e-6), rtol=2e-6, atol=1e-12)


def test_rms_norm_of_zeros_is_zeros(variant: str) -> None:
    assert torch.equal(ops.rms_norm(torch.zeros(2, 8), torch.ones(8), 1e-6), torch.zeros(2, 8))


def test_rms_norm_keeps_a_row_that_is_not_finite_to_itself(variant: str) -> None:
    x = normal(20, 16)
    clean = ops.rms_norm(x, torch.ones(16), 1e-6)
    x[3, 2] = float("nan")
    spoilt = ops.rms_norm(x, torch.ones(16), 1e-6)
    assert bool(spoilt[3].isnan().all())
    assert torch.equal(spoilt[4:], clean[4:])


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (17, 64), (0, 8)])
def test_swiglu_equals_the_reference(shape: tuple[int, int], variant: str) -> None:
    gate, up = normal(*shape) * 10, normal(*shape, seed=2)
    actual, expected = ops.swiglu(gate, up), reference.swiglu(gate, up)
    assert torch.allclose(actual, expected, rtol=1e-6, atol=1e-20)


def test_swiglu_opens_and_shuts_at_any_size(variant: str) -> None:
    gate = torch.tensor([[-3e38, -1e30, -1000.0, -88.0, -86.0, 0.0, 86.0, 1000.0, 3e38]])
    out = ops.swiglu(gate, torch.ones_like(gate))
    assert torch.allclose(out, reference.swiglu(gate, torch.ones_like(gate)), rtol=1e-6, atol=1e-35)


def test_swiglu_passes_nan_on(variant: str) -> None:
    out = ops.swiglu(torch.tensor([[float("nan"), 1.0]]), torch.ones(1, 2))
    assert out.isnan().tolist() == [[True, False]]
