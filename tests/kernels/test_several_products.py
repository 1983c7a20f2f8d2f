"""Ops of several products: against the reference, and bit for bit against their parts.

Float activations keep 2e-5 of the largest value. With rounded ones a value between two products may
round to the neighbouring step on one side only: a hundredth with 8 bits, a thousandth with 12.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from engine.errors import ShapeError
from engine.gguf.types import GGMLType
from engine.kernels import ops, reference
from engine.kernels.ops import Activations
from helpers.weights import activations, random_matrix

BOUNDS = {Activations.F32: 2e-5, Activations.INT8: 1e-2, Activations.INT16: 1e-3}
TYPES = (GGMLType.F32, GGMLType.BF16, GGMLType.Q5_K, GGMLType.Q2_K, GGMLType.IQ4_NL)
each_mode = pytest.mark.parametrize("mode", Activations, ids=lambda mode: mode.value)
each_type = pytest.mark.parametrize("type", TYPES, ids=lambda type: type.name)
each_count = pytest.mark.parametrize("tokens", [0, 1, 3, 33])


def close(actual: torch.Tensor, expected: torch.Tensor, mode: Activations) -> bool:
    most = expected.abs().max().item() if expected.numel() else 0.0
    return torch.allclose(actual, expected, rtol=0, atol=BOUNDS[mode] * most)


@each_mode
@each_count
def test_linears_have_the_bits_of_each_alone(tokens: int, mode: Activations, variant: str) -> None:
    """Formats that ask for the same form of activations, and formats that do not."""
    weights = [random_matrix(type, rows, 256) for type in TYPES for rows in (1, 37)]
    x = activations(tokens, 256)
    together = ops.linears(x, weights, mode)
    expected = reference.linears(x, weights, mode)
    assert len(together) == len(expected) == 2 * len(TYPES)
    for y, w, plain in zip(together, weights, expected, strict=True):
        assert torch.equal(y, ops.linear(x, w, mode))
        assert close(y, plain, mode)


def test_linears_of_no_matrix_are_none() -> None:
    assert ops.linears(activations(2, 32), ()) == []


@each_mode
@each_type
@each_count
def test_gated_ffn_equals_the_reference(
    tokens: int, type: GGMLType, mode: Activations, variant: str
) -> None:
    gate, up = (random_matrix(type, 256, 512, seed=seed) for seed in (1, 2))
    down, share = random_matrix(type, 512, 256, seed=3), random_matrix(GGMLType.F32, 1, 512)
    x, y = activations(tokens, 512) * 0.1, activations(tokens, 512, seed=2)
    expected, parts = y.clone(), y.clone()
    reference.gated_ffn(expected, x, gate, up, down, share, mode)
    inner = ops.swiglu(ops.linear(x, gate, mode), ops.linear(x, up, mode))
    ops.gated_add(
        *(parts[:, None], ops.linear(inner, down, mode), ops.linear(x, share, mode)),
        scale=1.0,
        gain=1.0,
    )
    ops.gated_ffn(y, x, gate, up, down, share, mode)
    assert close(y, expected, mode)
    assert torch.equal(y, parts)


@each_mode
@each_type
@pytest.mark.parametrize("tokens", [0, 1, 3, 130])  # more than a tile of tokens
def test_mix_streams_equals_the_reference(
    tokens: int, type: GGMLType, mode: Activations, variant: str
) -> None:
    down, up = random_matrix(type, 256, 1024, seed=1), random_matrix(type, 1024, 256, seed=2)
    inject = random_matrix(GGMLType.F32, 4, 1024, seed=3)
    h, norm = activations(tokens, 1024).view(tokens, 4, 256), activations(4, 256, seed=2) * 0.02
    x, logits = ops.mix_streams(h, norm, 1e-6, down, up, inject, mode)
    expected, injected = reference.mix_streams(h, norm, 1e-6, down, up, inject, mode)
    assert logits is not None
    assert injected is not None
    assert close(x, expected, mode)
    assert close(logits, injected, mode)
    alone, nothing = ops.mix_streams(h, norm, 1e-6, down, up, None, mode)
    assert nothing is None
    assert torch.equal(alone, x)


def test_nan_stays_with_its_token(variant: str) -> None:
    down, up = random_matrix(GGMLType.F32, 8, 32), random_matrix(GGMLType.F32, 32, 8)
    h = activations(3, 32).view(3, 4, 8)
    h[1, 2, 5] = float("nan")
    x, _ = ops.mix_streams(h, torch.ones(4, 8), 1e-6, down, up, None)
    assert x.isnan().any(1).tolist() == [False, True, False]
    y = activations(3, 32)
    share = random_matrix(GGMLType.F32, 1, 32)
    ops.gated_ffn(y, h.view(3, 32), down, down, up, share)
    assert y.isnan().any(1).tolist() == [False, True, False]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "dim", "pairs"), [(4, 2, 32, 8), (3, 1, 64, 32)])
@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_attention_inputs_equal_the_reference(
    *, tokens: int, heads: int, kv_heads: int, dim: int, pairs: int, half: bool, variant: str
) -> None:
    both = activations(tokens, heads * 2 * dim).view(tokens, heads, 2, dim)
    k = activations(tokens, kv_heads * dim, seed=2).view(tokens, kv_heads, dim)
    v = activations(tokens, kv_heads * dim, seed=3).view(tokens, kv_heads, dim)
    q_weight, k_weight = activations(2, dim, seed=4)
    inv_freq = torch.logspace(0, -4, pairs, dtype=torch.float64)
    positions = torch.arange(tokens, dtype=torch.int32) * 1000
    slots = torch.tensor([11, 0, 7, 3, 5][:tokens], dtype=torch.int64)
    pool = torch.zeros(3, 4, kv_heads, dim, dtype=torch.float16 if half else torch.float32)
    inputs = both, k, v, q_weight, k_weight
    results = []
    for op in (ops.attention_inputs, reference.attention_inputs):
        keys, values = pool.clone(), pool.clone()
        q, gate = op(*inputs, 1e-6, inv_freq, positions, slots, keys, values)
        results.append((q, gate, keys.float(), values.float()))
    tolerance = 1e-3 if half else 2e-6  # a step of a float16
    for actual, expected in zip(*results, strict=True):
        assert torch.allclose(actual, expected, rtol=tolerance, atol=2e-6)


W = random_matrix(GGMLType.Q8_0, 32, 64)
NARROW = random_matrix(GGMLType.Q8_0, 32, 32)
BACK = random_matrix(GGMLType.Q8_0, 64, 32)
ONE = random_matrix(GGMLType.Q8_0, 1, 64)
X, H = activations(2, 64), activations(2, 64).view(2, 2, 32)
NORM = torch.ones(2, 32)
BOTH, K = torch.zeros(1, 4, 2, 8), torch.zeros(1, 2, 8)


def inputs(**changes: torch.Tensor) -> object:
    args = {
        "both": BOTH, "k": K, "v": K, "q_weight": torch.ones(8), "k_weight": torch.ones(8),
        "inv_freq": torch.ones(2, dtype=torch.float64),
        "positions": torch.zeros(1, dtype=torch.int32), "slots": torch.zeros(1, dtype=torch.int64),
        "k_pool": torch.zeros(3, 4, 2, 8), "v_pool": torch.zeros(3, 4, 2, 8),
    }  # fmt: skip
    return ops.attention_inputs(**(args | changes), eps=1e-6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ops.linears(X, (W, NARROW)), "weights"),
        (lambda: ops.linears(X.double(), (W,)), "x"),
        (lambda: ops.gated_ffn(X, X, W, NARROW, BACK, ONE), "up"),
        (lambda: ops.gated_ffn(X, X, W, W, W, ONE), "down"),
        (lambda: ops.gated_ffn(X, X, W, W, BACK, W), "share"),
        (lambda: ops.gated_ffn(X[:1], X, W, W, BACK, ONE), "y"),
        (lambda: ops.gated_ffn(X, X[:, :32].contiguous(), W, W, BACK, ONE), "x"),
        (lambda: ops.mix_streams(X, NORM, 1e-6, W, BACK, None), "h"),
        (lambda: ops.mix_streams(H, NORM[:1], 1e-6, W, BACK, None), "norm"),
        (lambda: ops.mix_streams(H, NORM, 1e-6, NARROW, BACK, None), "down"),
        (lambda: ops.mix_streams(H, NORM, 1e-6, W, NARROW, None), "up"),
        (lambda: ops.mix_streams(H, NORM, 1e-6, W, BACK, NARROW), "inject"),
        (lambda: inputs(both=BOTH[:, :, :1].contiguous()), "both"),
        (lambda: inputs(k=torch.zeros(1, 2, 16)), "k"),
        (lambda: inputs(v=torch.zeros(1, 1, 8)), "v"),
        (lambda: inputs(q_weight=torch.ones(7)), "q_weight"),
        (lambda: inputs(k_weight=torch.ones(7)), "k_weight"),
        (lambda: inputs(inv_freq=torch.ones(5, dtype=torch.float64)), "inv_freq"),
        (lambda: inputs(positions=torch.zeros(2, dtype=torch.int32)), "positions"),
        (lambda: inputs(slots=torch.tensor([12])), "slots"),
        (lambda: inputs(k_pool=torch.zeros(3, 4, 1, 8)), "k_pool"),
        (lambda: inputs(v_pool=torch.zeros(3, 4, 2, 8).half()), "v_pool"),
    ],
)
def test_wrong_shapes_are_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(ShapeError, match=f"^{name}: "):
        call()
