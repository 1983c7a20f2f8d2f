"""Gates over streams of activations: hyper-connections, gated sublayers, the n-gram embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import ShapeError
from engine.kernels import _native
from engine.kernels.ops.checks import checked, shaped
from engine.kernels.ops.matrix import Activations, QuantMatrix
from engine.kernels.ops.record import empty


def mix_streams(
    h: Tensor,
    norm: Tensor,
    eps: float,
    down: QuantMatrix,
    up: QuantMatrix,
    inject: QuantMatrix | None,
    activations: Activations = Activations.F32,
) -> tuple[Tensor, Tensor | None]:
    """Several streams as one input: each is normed, gated through a bottleneck, and averaged.

    With n = the streams of h, each rms-normed with its row of `norm`, in a row:
    x = mean over streams of sigmoid(up silu(down n / streams)) * n;  logits = inject n.

    h        (tokens, streams, dim)
    norm     (streams, dim)
    down     (low, streams * dim), up (streams * dim, low), inject (any, streams * dim)
    returns  x (tokens, dim), and logits (tokens, inject.rows) if there is `inject`
    Source: HyperConnection of Qwen4Exp in transformers 5.24.
    """
    tokens, streams, dim = shaped("h", h, (None, None, None))
    shaped("norm", norm, (streams, dim))
    width = streams * dim
    if not width or down.cols != width:
        raise ShapeError(f"down: {down.cols} columns, h has {width} values per token")
    if (up.rows, up.cols) != (width, down.rows):
        raise ShapeError(f"up: {(up.rows, up.cols)}, {(width, down.rows)} expected")
    if inject is not None and inject.cols != width:
        raise ShapeError(f"inject: {inject.cols} columns, h has {width} values per token")
    x = empty(tokens, dim)
    logits = None if inject is None else empty(tokens, inject.rows)
    _native.mix_streams(
        *(h.data_ptr(), norm.data_ptr(), eps, down.native, up.native),
        *([] if inject is None else [inject.native], activations.levels, tokens, streams, dim),
        *(x.data_ptr(), 0 if logits is None else logits.data_ptr()),
    )
    return x, logits


def gated_norm(x: Tensor, weight: Tensor, eps: float, gate: Tensor) -> Tensor:
    """rms_norm(x) * sigmoid(gate).

    x        (tokens, heads, dim)
    weight   (dim,)
    gate     (tokens, heads * dim) logits
    returns  (tokens, heads * dim)
    """
    tokens, heads, dim = shaped("x", x, (None, None, None))
    shaped("weight", weight, (dim,))
    shaped("gate", gate, (tokens, heads * dim))
    if not dim:
        raise ShapeError("x: heads of 0")
    out = empty(*gate.shape)
    _native.gated_norm(
        *(x.data_ptr(), weight.data_ptr(), eps, gate.data_ptr(), tokens * heads, dim),
        out.data_ptr(),
    )
    return out


def sigmoid_gate(x: Tensor, gate: Tensor) -> None:
    """x *= sigmoid(gate), in place; both of one shape."""
    checked("x", x, torch.float32)
    shaped("gate", gate, tuple(x.shape))
    _native.sigmoid_gate(x.data_ptr(), gate.data_ptr(), x.numel())


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
        *(acc.data_ptr(), y.data_ptr(), logits.data_ptr(), tokens, streams, dim, scale, gain),
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
    out = empty(tokens, streams)
    _native.ngram_gates(
        *(keys.data_ptr(), queries.data_ptr(), tokens * streams, dim, out.data_ptr()),
    )
    return out
