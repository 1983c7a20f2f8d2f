"""Plain linear layers, experts, norms, rotary positions, router and dense attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.gguf.quants import dequantize as expand_blocks
from engine.gguf.types import LAYOUTS, row_bytes
from engine.kernels.ops import Activations, PagedTokens, QuantMatrix, RopeStyle, Selection

Doubles = NDArray[np.float64]


def dequantize(w: QuantMatrix) -> Tensor:
    """(num_experts * rows, cols) float32."""
    starts = range(0, w.data.size, w.expert_stride or w.expert_bytes)
    raw = np.concatenate([w.data[start : start + w.expert_bytes] for start in starts])
    rows = raw.reshape(w.num_experts * w.rows, row_bytes(w.type, w.cols))
    return torch.from_numpy(np.array(expand_blocks(rows, w.type)))


def linear(x: Tensor, w: QuantMatrix, activations: Activations = Activations.F32) -> Tensor:
    """x (tokens, cols) -> (tokens, rows), x @ w.T."""
    return _rounded(_inputs(x, w, activations) @ _stack(w)[0].T)


def linears(
    x: Tensor, weights: Sequence[QuantMatrix], activations: Activations = Activations.F32
) -> list[Tensor]:
    """x (tokens, cols) -> [(tokens, rows), ...]."""
    return [linear(x, w, activations) for w in weights]


def gated_ffn(
    y: Tensor,
    x: Tensor,
    gate: QuantMatrix,
    up: QuantMatrix,
    down: QuantMatrix,
    share: QuantMatrix,
    activations: Activations = Activations.F32,
) -> None:
    """y (tokens, hidden) += sigmoid(share x) * down(silu(gate x) * up x), in place."""
    inner = swiglu(linear(x, gate, activations), linear(x, up, activations))
    out = linear(inner, down, activations).double()
    y.copy_(y.double() + torch.sigmoid(linear(x, share, activations).double()) * out)


def embedding(ids: Tensor, w: QuantMatrix) -> Tensor:
    """ids (tokens,) int64 -> (tokens, cols), the rows of w."""
    return dequantize(w)[ids]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (..., dim), weight (dim,) or (groups, dim) -> x / sqrt(mean(x²) + eps) * weight."""
    wide = x.double()
    return (wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()).float()


def rope(x: Tensor, positions: Tensor, inv_freq: Tensor, style: RopeStyle) -> None:
    """Rotate x (tokens, heads, head_dim) in place by position."""
    half = inv_freq.numel()
    angle = (positions.double()[:, None] * inv_freq)[:, None, :]  # (tokens, 1, half)
    turn = torch.polar(torch.ones_like(angle), angle)
    if style is RopeStyle.NEOX:
        first, second = x[..., :half], x[..., half : 2 * half]
    else:
        first, second = x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]
    turned = torch.complex(first.double(), second.double()) * turn
    first.copy_(turned.real)
    second.copy_(turned.imag)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """gate, up (rows, width) -> silu(gate) * up."""
    return torch.from_numpy(_swiglu(gate.double().numpy(), up.double().numpy())).float()


def router_topk(logits: Tensor, k: int, *, normalise: bool) -> tuple[Tensor, Tensor]:
    """The k best experts of each token, best first, ties to the lower index, and their weights."""
    ids = torch.from_numpy(np.argsort(-logits.numpy(), axis=1, kind="stable")[:, :k].copy())
    weights = torch.softmax(logits.double(), dim=1).gather(1, ids)
    if normalise:
        weights = weights / weights.sum(1, keepdim=True)
    return ids.int(), weights.float()


def expert_ffn(
    x: Tensor,
    gate: QuantMatrix,
    up: QuantMatrix,
    down: QuantMatrix,
    ids: Tensor,
    weights: Tensor,
    activations: Activations = Activations.F32,
    counts: Tensor | None = None,
) -> Tensor:
    """Sum over a token's experts of weight * down(silu(gate x) * up x); negative ids are skipped.

    x (tokens, hidden), ids and weights (tokens, k) -> (tokens, hidden)
    """
    gates, ups, downs = _stack(gate), _stack(up), _stack(down)
    for_gate, for_up = _inputs(x, gate, activations), _inputs(x, up, activations)
    out = np.zeros((x.shape[0], down.rows))
    for token, slot in np.ndindex(*ids.shape):
        expert = int(ids[token, slot])
        if expert < 0:
            continue
        inner = _swiglu(gates[expert] @ for_gate[token], ups[expert] @ for_up[token])
        middle = _inputs(torch.from_numpy(inner[None].astype(np.float32)), down, activations)[0]
        out[token] += float(weights[token, slot]) * (downs[expert] @ middle)
    if counts is not None:
        counts += torch.bincount(ids[ids >= 0], minlength=gate.num_experts).int()
    return _rounded(out)


def store_kv(source: Tensor, pool: Tensor, slots: Tensor) -> None:
    """Write source (tokens, kv_heads, head_dim) to the places `slots` (tokens,) of the pool."""
    pages, page_tokens, *rest = pool.shape
    pool.view(pages * page_tokens, *rest)[slots] = source.to(pool.dtype)


def attention_inputs(
    both: Tensor,
    k: Tensor,
    v: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    eps: float,
    inv_freq: Tensor,
    positions: Tensor,
    slots: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
) -> tuple[Tensor, Tensor]:
    """both (tokens, heads, 2, head_dim) -> queries, gates (tokens, heads * head_dim)."""
    q, key = rms_norm(both[:, :, 0], q_weight, eps), rms_norm(k, k_weight, eps)
    for heads in (q, key):
        rope(heads, positions, inv_freq, RopeStyle.NEOX)
    store_kv(key, k_pool, slots)
    store_kv(v, v_pool, slots)
    return q, both[:, :, 1].flatten(1)


def attention(
    q: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    tokens: PagedTokens,
    *,
    scale: float,
    selection: Selection | None = None,
) -> Tensor:
    """Attention of q (tokens, heads, head_dim) to positions 0..its own, or those selected."""
    group = q.shape[1] // k_pool.shape[2]
    out = torch.empty_like(q)
    for token in range(q.shape[0]):
        pages = tokens.page_table[tokens.sequence[token]].long()
        seen = int(tokens.positions[token]) + 1
        places = torch.arange(seen)
        if selection is not None:
            blocks, ratio = selection.blocks[token], selection.ratio
            tail = places >= seen // ratio * ratio
            places = places[tail | torch.isin(places // ratio, blocks[blocks >= 0])]
        keys = k_pool[pages].flatten(0, 1)[places].double().repeat_interleave(group, dim=1)
        values = v_pool[pages].flatten(0, 1)[places].double().repeat_interleave(group, dim=1)
        scores = torch.einsum("hd,phd->hp", q[token].double(), keys) * scale
        out[token] = torch.einsum("hp,phd->hd", scores.softmax(-1), values)
    return out


def round_activations(x: Tensor, levels: int = 127) -> Tensor:
    """x (tokens, cols) float32 as rounded activations see it, in float64.

    32 values share a scale of max / levels; what has no scale becomes 0, or NaN if not finite.
    """
    blocks = x.numpy().reshape(x.shape[0], x.shape[1] // 32, 32)
    most = np.abs(blocks).max(-1, keepdims=True)
    usual = np.isfinite(most) & (most >= np.float32(1e-35))
    steps = np.divide(np.float32(levels), most, out=np.zeros_like(most), where=usual)
    with np.errstate(invalid="ignore"):  # infinity times 0 is the NaN that is meant
        rounded = np.rint(blocks * steps).astype(np.float64) * (most / np.float32(levels))
    return torch.from_numpy(rounded.reshape(x.shape))


def _inputs(x: Tensor, w: QuantMatrix, activations: Activations) -> Doubles:
    """What the products see of x: rounded when that is asked for and w is quantised."""
    rounded = activations.levels and LAYOUTS[w.type].elements > 1
    return (round_activations(x, activations.levels) if rounded else x.double()).numpy()


def _stack(w: QuantMatrix) -> Doubles:
    """(num_experts, rows, cols) float64."""
    return dequantize(w).double().numpy().reshape(w.num_experts, w.rows, w.cols)


def _swiglu(gate: Doubles, up: Doubles) -> Doubles:
    return gate * np.exp(-np.logaddexp(0, -gate)) * up  # 1 / (1 + exp(-gate)) without overflow


def _rounded(values: Doubles) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
