"""Plain gates over streams of activations."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels.ops import Activations, QuantMatrix
from engine.kernels.reference.dense import linear, rms_norm


def mix_streams(
    h: Tensor,
    norm: Tensor,
    eps: float,
    down: QuantMatrix,
    up: QuantMatrix,
    inject: QuantMatrix | None,
    activations: Activations = Activations.F32,
) -> tuple[Tensor, Tensor | None]:
    """h (tokens, streams, dim) -> x (tokens, dim), logits (tokens, inject.rows)."""
    streams = h.shape[1]
    normed = rms_norm(h, norm, eps)
    flat = normed.flatten(1)
    scaled = linear(flat, down, activations).double() / streams
    low = (scaled * torch.sigmoid(scaled)).float()
    gates = torch.sigmoid(linear(low, up, activations).double())
    x = (gates.view(h.shape) * normed.double()).mean(1).float()
    return x, None if inject is None else linear(flat, inject, activations)


def gated_norm(x: Tensor, weight: Tensor, eps: float, gate: Tensor) -> Tensor:
    """x (tokens, heads, dim), gate (tokens, heads * dim) -> (tokens, heads * dim)."""
    normed = rms_norm(x, weight, eps).view(gate.shape).double()
    return (normed * torch.sigmoid(gate.double())).float()


def sigmoid_gate(x: Tensor, gate: Tensor) -> None:
    """x *= sigmoid(gate), in place."""
    x.copy_(x.double() * torch.sigmoid(gate.double()))


def gated_add(acc: Tensor, y: Tensor, logits: Tensor, *, scale: float, gain: float) -> None:
    """acc (tokens, streams, dim) += gain * sigmoid(logits (tokens, streams) * scale) * y."""
    weights = gain * torch.sigmoid(logits.double() * scale)
    acc.copy_(acc.double() + weights[:, :, None] * y.double()[:, None, :])


def ngram_gates(keys: Tensor, queries: Tensor) -> Tensor:
    """keys, queries (tokens, streams, dim) -> (tokens, streams)."""
    s = (keys.double() * queries.double()).sum(-1) / keys.shape[-1] ** 0.5
    return torch.sigmoid(s.sign() * s.abs().clamp(min=1e-6).sqrt()).float()
