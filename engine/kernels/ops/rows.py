"""Operations on rows of activations: norm, rotary positions, gate, router."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from engine.errors import ShapeError
from engine.kernels import _native
from engine.kernels.ops.checks import checked, shaped
from engine.kernels.ops.record import empty


class RopeStyle(Enum):
    """Which dimensions of a head rotate against each other."""

    NORM = "norm"  # neighbours: (0, 1), (2, 3), …
    NEOX = "neox"  # halves: (0, half), (1, half + 1), …


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight, over the last axis.

    x       (..., dim), or (..., groups, dim)
    weight  (dim,), or (groups, dim): each group has a weight of its own
    """
    checked("weight", weight, torch.float32)
    shape = tuple(weight.shape)
    if len(shape) not in (1, 2):
        raise ShapeError(f"weight: shape {shape}, (dim,) or (groups, dim) expected")
    if not weight.numel() or tuple(x.shape[-len(shape) :]) != shape:
        raise ShapeError(f"x: shape {tuple(x.shape)}, weight has {shape}")
    checked("x", x, torch.float32)
    out, dim = empty(*x.shape), shape[-1]
    _native.rms_norm(
        *(x.data_ptr(), weight.data_ptr(), eps, x.numel() // dim, dim),
        *(weight.numel() // dim, out.data_ptr()),
    )
    return out


def rope(x: Tensor, positions: Tensor, inv_freq: Tensor, style: RopeStyle) -> None:
    """Rotate x (tokens, heads, head_dim) in place by position.

    positions  (tokens,) int32
    inv_freq   (dims / 2,) float64, radians per position; only the first `dims` of a head rotate
    """
    tokens, heads, head_dim = shaped("x", x, (None, None, None))
    shaped("positions", positions, (tokens,), torch.int32)
    (half,) = shaped("inv_freq", inv_freq, (None,), torch.float64)
    if 2 * half > head_dim:
        raise ShapeError(f"inv_freq: {half} pairs do not fit heads of {head_dim}")
    addresses = x.data_ptr(), positions.data_ptr(), inv_freq.data_ptr()
    _native.rope(*addresses, tokens, heads, head_dim, half, style is RopeStyle.NEOX)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """gate, up (rows, width) -> silu(gate) * up."""
    rows, width = shaped("gate", gate, (None, None))
    shaped("up", up, (rows, width))
    out = empty(*gate.shape)
    _native.swiglu(gate.data_ptr(), up.data_ptr(), rows, width, out.data_ptr())
    return out


def router_topk(logits: Tensor, k: int, *, normalise: bool) -> tuple[Tensor, Tensor]:
    """The k best experts of each token by softmax over all.

    logits   (tokens, experts)
    returns  ids (tokens, k) int32, best first, ties to the lower index; weights (tokens, k), which
             sum to 1 per token when `normalise`
    """
    tokens, experts = shaped("logits", logits, (None, None))
    if not 1 <= k <= experts:
        raise ShapeError(f"k: {k} of {experts} experts")
    ids, weights = empty(tokens, k, dtype=torch.int32), empty(tokens, k)
    _native.router_topk(
        *(logits.data_ptr(), tokens, experts, k, normalise),
        ids.data_ptr(),
        weights.data_ptr(),
    )
    return ids, weights
