"""The plain convolution and delta rule: one token after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.ops import Spans

EPSILON = 1e-6


def causal_conv(
    x: Tensor, kernel: Tensor, state: Tensor, spans: Spans, *, dilation: int = 1
) -> Tensor:
    """x (tokens, channels), kernel (taps, channels) -> (tokens, channels); state moves on."""
    taps, out = kernel.shape[0], torch.empty_like(x)
    history = (taps - 1) * dilation
    for first, end, slot in _each(spans):
        inputs = torch.cat([state[slot], x[first:end]]).double()
        for t in range(end - first):
            seen = inputs[t : t + history + 1 : dilation]
            mixed = (seen * kernel.double()).sum(0)
            out[first + t] = mixed * torch.sigmoid(mixed)
        state[slot] = inputs[inputs.shape[0] - history :]
    return out


def delta_rule(
    qkv: Tensor,
    beta: Tensor,
    alpha: Tensor,
    decay: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    spans: Spans,
    *,
    key_heads: int,
) -> Tensor:
    """qkv (tokens, width) -> (tokens, heads, value_dim); state moves on."""
    _, heads, key_dim, value_dim = state.shape
    keys = key_heads * key_dim
    parts = qkv.double().tensor_split((keys, 2 * keys), dim=1)
    q, k = (_unit(part.view(-1, key_heads, key_dim)) for part in parts[:2])
    q, v = q / key_dim**0.5, parts[2].view(-1, heads, value_dim)
    b = torch.sigmoid(beta.double())
    g = torch.exp(decay.double() * torch.nn.functional.softplus(alpha.double() + dt_bias.double()))
    pair = torch.arange(heads) % key_heads
    out = torch.empty(qkv.shape[0], heads, value_dim)
    for first, end, slot in _each(spans):
        s = state[slot].double()
        for t in range(first, end):
            s = g[t][:, None, None] * s
            seen = torch.einsum("hkv,hk->hv", s, k[t, pair])
            delta = b[t][:, None] * (v[t] - seen)
            s = s + k[t, pair][:, :, None] * delta[:, None, :]
            out[t] = torch.einsum("hkv,hk->hv", s, q[t, pair])
        state[slot] = s.float()
    return out


def _unit(x: Tensor) -> Tensor:
    return x / (x.square().sum(-1, keepdim=True) + EPSILON).sqrt()


def _each(spans: Spans) -> list[tuple[int, int, int]]:
    """First row, row after the last, and slot of every span."""
    offsets = spans.offsets.tolist()
    return list(zip(offsets[:-1], offsets[1:], spans.slots.tolist(), strict=True))
