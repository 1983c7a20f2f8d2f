"""Gates over streams of activations: hyper-connections, gated sublayers, the n-gram embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.kernels import _native
from engine.kernels.ops.checks import checked, shaped


def scaled_silu(x: Tensor, scale: float) -> Tensor:
    """x of any shape -> silu(x * scale)."""
    checked("x", x, torch.float32)
    out = torch.empty_like(x)
    _native.scaled_silu(x.data_ptr(), scale, x.numel(), out.data_ptr())
    return out


def sigmoid_gate(x: Tensor, gate: Tensor) -> None:
    """x *= sigmoid(gate), in place; both of one shape."""
    checked("x", x, torch.float32)
    shaped("gate", gate, tuple(x.shape))
    _native.sigmoid_gate(x.data_ptr(), gate.data_ptr(), x.numel())


def gated_mean(x: Tensor, gates: Tensor) -> Tensor:
    """The mean over streams of sigmoid(gates) * x, summed in the order of the streams.

    x        (tokens, streams, dim)
    gates    (tokens, streams * dim) logits
    returns  (tokens, dim)
    """
    tokens, streams, dim = shaped("x", x, (None, None, None))
    shaped("gates", gates, (tokens, streams * dim))
    out = torch.empty(tokens, dim)
    _native.gated_mean(x.data_ptr(), gates.data_ptr(), tokens, streams, dim, out.data_ptr())
    return out


def gated_add(acc: Tensor, y: Tensor, logits: Tensor, *, scale: float, gain: float) -> None:
    """acc[t, c] += gain * sigmoid(logits[t, c] * scale) * y[t], in place.

    acc     (tokens, streams, dim)
    y       (tokens, dim)
    logits  (tokens, streams)
    """
    tokens, streams, dim = shaped("acc", acc, (None, None, None))
    shaped("y", y, (tokens, dim))
    shaped("logits", logits, (tokens, streams))
    _native.gated_add(
        *(acc.data_ptr(), y.data_ptr(), logits.data_ptr(), tokens, streams, dim, scale, gain)
    )


def ngram_gates(keys: Tensor, queries: Tensor) -> Tensor:
    """How much of the n-gram embedding each stream takes: a squashed signed root of a product.

    keys, queries  (tokens, streams, dim)
    returns        (tokens, streams): s = (k . q) / sqrt(dim), then
                   sigmoid(sign(s) * sqrt(max(|s|, 1e-6)))
    Source: Qwen4ExpPLE in transformers 5.24.
    """
    tokens, streams, dim = shaped("keys", keys, (None, None, None))
    shaped("queries", queries, (tokens, streams, dim))
    out = torch.empty(tokens, streams)
    _native.ngram_gates(
        *(keys.data_ptr(), queries.data_ptr(), tokens * streams, dim, out.data_ptr())
    )
    return out
