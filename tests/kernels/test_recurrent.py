"""The convolution and the delta rule: values, state, and that no cut of a sequence is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from engine.errors import ShapeError
from engine.kernels import ops, reference
from engine.kernels.ops import Spans
from helpers.qwen4exp_oracle import causal_convolution, sigmoid, silu, unit

KEY_HEADS, HEADS = 2, 6
TOKENS = 23


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def spans(counts: Sequence[int], slots: Sequence[int]) -> Spans:
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return Spans(
        offsets=torch.from_numpy(offsets).int(), slots=torch.tensor(slots, dtype=torch.int32)
    )


SPANS = spans([9, 1, 0, 13], [3, 0, 4, 1])
THREE = spans([3], [0])


class Delta:
    """Inputs of a delta rule with some sizes."""

    def __init__(self, key_dim: int = 16, value_dim: int = 40, tokens: int = TOKENS) -> None:
        width = 2 * KEY_HEADS * key_dim + HEADS * value_dim
        self.qkv = normal(tokens, width)
        self.beta, self.alpha = normal(tokens, HEADS, seed=2), normal(tokens, HEADS, seed=3) * 3
        self.decay = -torch.rand(HEADS, generator=torch.Generator().manual_seed(4))
        self.dt_bias = normal(HEADS, seed=5)
        self.state = normal(5, HEADS, key_dim, value_dim, seed=6)

    def run(
        self,
        rule: Callable[..., torch.Tensor],
        state: torch.Tensor,
        spans: Spans = SPANS,
        rows: slice = slice(None),
    ) -> torch.Tensor:
        inputs = (self.qkv[rows], self.beta[rows], self.alpha[rows])
        return rule(*inputs, self.decay, self.dt_bias, state, spans, key_heads=KEY_HEADS)


@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize(("taps", "channels"), [(4, 100), (2, 1), (3, 2500)])
def test_causal_conv_equals_the_reference(
    taps: int, channels: int, dilation: int, variant: str
) -> None:
    x, kernel = normal(TOKENS, channels), normal(taps, channels, seed=2)
    state = normal(5, (taps - 1) * dilation, channels, seed=3)
    expected_state = state.clone()
    expected = reference.causal_conv(x, kernel, expected_state, SPANS, dilation=dilation)
    actual = ops.causal_conv(x, kernel, state, SPANS, dilation=dilation)
    assert torch.allclose(actual, expected, rtol=2e-6, atol=2e-6)
    assert torch.equal(state, expected_state)


@pytest.mark.parametrize("dilation", [1, 3])
def test_causal_conv_equals_the_oracle(dilation: int, variant: str) -> None:
    x, kernel = normal(TOKENS, 8), normal(4, 8, seed=2)
    state = torch.zeros(1, 3 * dilation, 8)
    actual = ops.causal_conv(x, kernel, state, spans([TOKENS], [0]), dilation=dilation)
    wide = causal_convolution(x.double().numpy(), kernel.double().numpy().T, dilation=dilation)
    assert np.abs(actual.numpy() - silu(wide)).max() < 1e-5


@pytest.mark.parametrize(("key_dim", "value_dim"), [(16, 40), (128, 128), (8, 8), (24, 32)])
def test_delta_rule_equals_the_reference(key_dim: int, value_dim: int, variant: str) -> None:
    delta = Delta(key_dim, value_dim)
    state, expected_state = delta.state.clone(), delta.state.clone()
    expected = delta.run(reference.delta_rule, expected_state)
    actual = delta.run(ops.delta_rule, state)
    assert torch.allclose(actual, expected, rtol=1e-5, atol=2e-6)
    assert torch.allclose(state, expected_state, rtol=1e-5, atol=5e-6)
    assert torch.equal(state[2], delta.state[2])  # nobody's


def test_delta_rule_with_an_open_gate_reads_back_what_it_wrote(variant: str) -> None:
    """One key head, no decay, full step: a query equal to the last key gives the last value."""
    delta = Delta(tokens=5)
    delta.decay.zero_()
    delta.beta.fill_(50.0)
    keys = KEY_HEADS * 16
    delta.qkv[:, :keys] = delta.qkv[:, keys : 2 * keys]
    out = delta.run(ops.delta_rule, torch.zeros(1, HEADS, 16, 40), spans([5], [0]))
    values = delta.qkv[:, 2 * keys :].view(5, HEADS, 40)
    assert torch.allclose(out, values / 4, rtol=1e-4, atol=1e-4)  # queries are over sqrt(16)


def test_convolution_and_delta_rule_equal_the_oracle(variant: str) -> None:
    """What the delta-net layer of the oracle does, as loops over tokens and heads."""
    key_dim, value_dim = 16, 40
    delta, kernel = Delta(key_dim, value_dim), normal(4, 2 * KEY_HEADS * 16 + HEADS * 40, seed=8)
    whole, state = spans([TOKENS], [0]), torch.zeros(1, HEADS, key_dim, value_dim)
    u = silu(causal_convolution(delta.qkv.double().numpy(), kernel.double().numpy().T))
    delta.qkv = ops.causal_conv(delta.qkv, kernel, torch.zeros(1, 3, len(u[0])), whole)
    actual = delta.run(ops.delta_rule, state, whole).numpy()

    q, k, v = np.split(u, [KEY_HEADS * key_dim, 2 * KEY_HEADS * key_dim], axis=1)
    q = unit(q.reshape(TOKENS, KEY_HEADS, key_dim)) / np.sqrt(key_dim)
    k, v = unit(k.reshape(q.shape)), v.reshape(TOKENS, HEADS, value_dim)
    beta = sigmoid(delta.beta.double().numpy())
    step = np.logaddexp(0, (delta.alpha.double() + delta.dt_bias.double()).numpy())
    decay = np.exp(delta.decay.double().numpy() * step)
    for head in range(HEADS):
        s, pair = np.zeros((key_dim, value_dim)), head % KEY_HEADS
        for t in range(TOKENS):
            s *= decay[t, head]
            s += np.outer(k[t, pair], beta[t, head] * (v[t, head] - s.T @ k[t, pair]))
            assert np.abs(actual[t, head] - s.T @ q[t, pair]).max() < 1e-5, (t, head)
        assert np.abs(state[0, head].numpy() - s).max() < 1e-5, head


@pytest.mark.parametrize("cuts", [[1] * TOKENS, [7, 7, 7, 2], [2, 21], [22, 1]])
def test_no_bit_shows_how_a_sequence_was_cut(cuts: list[int], variant: str) -> None:
    delta, kernel = Delta(), normal(4, 50, seed=8)
    x = normal(TOKENS, 50, seed=7)
    state, tail = delta.state.clone(), torch.zeros(5, 9, 50)
    whole_spans = spans([TOKENS], [1])
    whole = delta.run(ops.delta_rule, state, whole_spans)
    whole_conv = ops.causal_conv(x, kernel, tail, whole_spans, dilation=3)
    cut_state, cut_tail, parts, conv_parts, at = (
        delta.state.clone(),
        torch.zeros(5, 9, 50),
        [],
        [],
        0,
    )
    for count in cuts:
        rows = slice(at, at + count)
        parts.append(delta.run(ops.delta_rule, cut_state, spans([count], [1]), rows))
        conv_parts.append(
            ops.causal_conv(x[rows], kernel, cut_tail, spans([count], [1]), dilation=3)
        )
        at += count
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(cut_state, state)
    assert torch.equal(torch.cat(conv_parts), whole_conv)
    assert torch.equal(cut_tail, tail)


@pytest.mark.parametrize("threads", [1, 3])
def test_no_bit_shows_the_company_or_the_threads(threads: int, variant: str) -> None:
    delta = Delta()
    together_state = delta.state.clone()
    together = delta.run(ops.delta_rule, together_state)
    ops.set_num_threads(threads)
    alone_state = delta.state.clone()
    alone = delta.run(ops.delta_rule, alone_state, spans([13], [1]), slice(10, 23))
    assert torch.equal(alone, together[10:])
    assert torch.equal(alone_state[1], together_state[1])


def test_nan_stays_in_its_sequence(variant: str) -> None:
    delta = Delta()
    delta.qkv[9] = float("nan")  # the second span, a single token
    out = delta.run(ops.delta_rule, delta.state)
    assert out.isnan().flatten(1).any(1).nonzero().flatten().tolist() == [9]
    assert delta.state.isnan().flatten(1).any(1).tolist() == [True, False, False, False, False]


def test_a_convolution_of_infinite_inputs_is_not_taken_for_zero(variant: str) -> None:
    x = torch.ones(TOKENS, 20)
    x[4] = float("-inf")
    out = ops.causal_conv(x, torch.ones(3, 20), torch.zeros(5, 2, 20), SPANS)
    assert out.isnan().any(1).nonzero().flatten().tolist() == [4, 5, 6]  # of the first span


@pytest.mark.parametrize("threads", [1, 3])
def test_no_bit_of_a_convolution_shows_the_company_or_the_threads(
    threads: int, variant: str
) -> None:
    x, kernel, state = normal(TOKENS, 2061), normal(4, 2061, seed=2), normal(5, 9, 2061, seed=3)
    together_state, alone_state = state.clone(), state.clone()
    together = ops.causal_conv(x, kernel, together_state, SPANS, dilation=3)
    ops.set_num_threads(threads)
    alone = ops.causal_conv(x[10:], kernel, alone_state, spans([13], [1]), dilation=3)
    assert torch.equal(alone, together[10:])
    assert torch.equal(alone_state[1], together_state[1])


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ops.causal_conv(normal(3, 8), normal(1, 8), normal(1, 0, 8), THREE), "kernel"),
        (lambda: ops.causal_conv(normal(3, 8), normal(4, 7), normal(1, 3, 8), THREE), "kernel"),
        (lambda: ops.causal_conv(normal(3, 8), normal(4, 8), normal(1, 4, 8), THREE), "state"),
        (lambda: ops.causal_conv(normal(4, 8), normal(4, 8), normal(1, 3, 8), THREE), "offsets"),
        (
            lambda: ops.causal_conv(normal(3, 8), normal(4, 8), normal(1, 3, 8), spans([3], [1])),
            "slots",
        ),
        (lambda: Delta(12).run(ops.delta_rule, normal(5, HEADS, 12, 40)), "state"),
        (lambda: Delta(16).run(ops.delta_rule, normal(5, 5, 16, 40)), "key_heads"),
        (lambda: Delta(16).run(ops.delta_rule, normal(5, HEADS, 16, 48)), "qkv"),
        (lambda: Delta(16).run(ops.delta_rule, normal(4, HEADS, 16, 40)), "slots"),
    ],
)
def test_wrong_shapes_are_refused_by_name(call: Callable[[], object], name: str) -> None:
    with pytest.raises(ShapeError, match=f"^{name}: "):
        call()
