"""Plain gates over streams of activations."""

from __future__ import annotations

import torch
from torch import Tensor


def scaled_silu(x: Tensor, scale: float) -> Tensor:
    """x of any shape -> silu(x * scale)."""
    scaled = x.double() * scale
    return (scaled * torch.sigmoid(scaled)).float()


def sigmoid_gate(x: Tensor, gate: Tensor) -> None:
    """x *= sigmoid(gate), in place."""
    x.copy_(x.double() * torch.sigmoid(gate.double()))


def gated_mean(x: Tensor, gates: Tensor) -> Tensor:
    """x (tokens, streams, dim), gates (tokens, streams * dim) -> (tokens, dim)."""
    return (torch.sigmoid(gates.double()).view(x.shape) * x.double()).mean(1).float()


def gated_add(acc: Tensor, y: Tensor, logits: Tensor, *, scale: float, gain: float) -> None:
    """acc (tokens, streams, dim) += gain * sigmoid(logits (tokens, streams) * scale) * y."""
    weights = gain * torch.sigmoid(logits.double() * scale)
    acc.copy_(acc.double() + weights[:, :, None] * y.double()[:, None, :])


def ngram_gates(keys: Tensor, queries: Tensor) -> Tensor:
    """keys, queries (tokens, streams, dim) -> (tokens, streams)."""
    s = (keys.double() * queries.double()).sum(-1) / keys.shape[-1] ** 0.5
    return torch.sigmoid(s.sign() * s.abs().clamp(min=1e-6).sqrt()).float()
