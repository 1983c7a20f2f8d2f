"""The native operations: the only door to `_native`.

Called by `engine.model` and `engine.experts`. Each op checks shapes, dtypes and layout (ShapeError
names the argument) and hands addresses to C++; `reference.py` holds the plain version of each.
All tensors are contiguous CPU float32 unless said otherwise.

**Invariance.** The result for one token has the same bits whatever else is in the call and for any
number of threads: sums have a fixed order, work is split over rows, experts and heads only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import ShapeError
from engine.gguf.types import GGMLType, row_bytes
from engine.kernels import _native

HEAD_DIM_MAX = 1024
THREADS_MAX = 1024


class Activations(Enum):
    """How activations meet quantised weights."""

    F32 = "f32"  # weights expanded block by block; the reference
    INT8 = "int8"  # activations rounded to int8 per 32 values


class RopeStyle(Enum):
    """Which dimensions of a head rotate against each other."""

    NORM = "norm"  # neighbours: (0, 1), (2, 3), …
    NEOX = "neox"  # halves: (0, half), (1, half + 1), …


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantMatrix:
    """A weight matrix, or a stack of one per expert, as it lies in the file.

    data  (num_experts * rows * row_bytes,) uint8, a view of the mapping; kept alive, never copied
    """

    data: NDArray[np.uint8]
    type: GGMLType
    rows: int  # outputs
    cols: int  # inputs
    num_experts: int = 1
    native: tuple[int, int, int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _native.has_type(int(self.type)):
            raise ShapeError(f"no kernels for weights of type {self.type.name}")
        if min(self.rows, self.cols, self.num_experts) < 1:
            raise ShapeError(
                f"{self.num_experts} matrices of {self.rows} rows, {self.cols} columns"
            )
        try:
            expected = self.num_experts * self.rows * row_bytes(self.type, self.cols)
        except ValueError as error:
            raise ShapeError(f"cols: {error}") from None
        if self.data.dtype != np.uint8 or self.data.ndim != 1 or not self.data.flags.c_contiguous:
            raise ShapeError("weight data must be one contiguous row of bytes")
        if self.data.size != expected:
            raise ShapeError(f"weight data has {self.data.size} bytes, {expected} expected")
        address = self.data.__array_interface__["data"][0]
        sizes = (address, int(self.type), self.rows, self.cols, self.num_experts)
        object.__setattr__(self, "native", sizes)

    @property
    def num_bytes(self) -> int:
        return int(self.data.size)


def variants() -> list[str]:
    """The instruction-set variants this machine can run, best last."""
    return _native.variants()


def variant() -> str:
    """The variant in use."""
    return _native.variant()


def set_variant(name: str) -> None:
    """Use another variant, for tests. Raises ShapeError for an unknown one."""
    if not _native.set_variant(name):
        raise ShapeError(f"no variant {name!r}; this machine has {', '.join(variants())}")


def num_threads() -> int:
    """Threads that compute, the caller included."""
    return _native.num_threads()


def set_num_threads(count: int) -> None:
    """Compute with `count` threads."""
    if not 1 <= count <= THREADS_MAX:
        raise ShapeError(f"count: {count} threads, 1 to {THREADS_MAX} are possible")
    _native.set_num_threads(count)


def linear(x: Tensor, w: QuantMatrix, activations: Activations = Activations.F32) -> Tensor:
    """x (tokens, cols) -> (tokens, rows), x @ w.T. Float weights stay float in int8 mode."""
    tokens, _ = _shaped("x", x, (None, w.cols))
    out = torch.empty(tokens, w.rows)
    int8 = activations is Activations.INT8
    _native.linear(x.data_ptr(), tokens, w.native, int8, out.data_ptr())
    return out


def embedding(ids: Tensor, w: QuantMatrix) -> Tensor:
    """ids (tokens,) int64 -> (tokens, cols), the rows of w."""
    (tokens,) = _shaped("ids", ids, (None,), torch.int64)
    if tokens and not 0 <= int(ids.min()) <= int(ids.max()) < w.rows:
        raise ShapeError(f"ids: a row outside 0..{w.rows - 1}")
    out = torch.empty(tokens, w.cols)
    _native.embedding(ids.data_ptr(), tokens, w.native, out.data_ptr())
    return out


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x (..., dim), weight (dim,) -> x / sqrt(mean(x²) + eps) * weight, over the last axis."""
    (dim,) = _shaped("weight", weight, (None,))
    if not dim or not x.dim() or x.shape[-1] != dim:
        raise ShapeError(f"x: shape {tuple(x.shape)}, weight has {dim}")
    _checked("x", x, torch.float32)
    out = torch.empty_like(x)
    _native.rms_norm(x.data_ptr(), weight.data_ptr(), eps, x.numel() // dim, dim, out.data_ptr())
    return out


def rope(x: Tensor, positions: Tensor, inv_freq: Tensor, style: RopeStyle) -> None:
    """Rotate x (tokens, heads, head_dim) in place by position.

    positions  (tokens,) int32
    inv_freq   (dims / 2,) float64, radians per position; only the first `dims` of a head rotate
    """
    tokens, heads, head_dim = _shaped("x", x, (None, None, None))
    _shaped("positions", positions, (tokens,), torch.int32)
    (half,) = _shaped("inv_freq", inv_freq, (None,), torch.float64)
    if 2 * half > head_dim:
        raise ShapeError(f"inv_freq: {half} pairs do not fit heads of {head_dim}")
    addresses = x.data_ptr(), positions.data_ptr(), inv_freq.data_ptr()
    _native.rope(*addresses, tokens, heads, head_dim, half, style is RopeStyle.NEOX)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """gate, up (rows, width) -> silu(gate) * up."""
    rows, width = _shaped("gate", gate, (None, None))
    _shaped("up", up, (rows, width))
    out = torch.empty_like(gate)
    _native.swiglu(gate.data_ptr(), up.data_ptr(), rows, width, out.data_ptr())
    return out


def router_topk(logits: Tensor, k: int, *, normalise: bool) -> tuple[Tensor, Tensor]:
    """The k best experts of each token by softmax over all.

    logits   (tokens, experts)
    returns  ids (tokens, k) int32, best first, ties to the lower index; weights (tokens, k), which
             sum to 1 per token when `normalise`
    """
    tokens, experts = _shaped("logits", logits, (None, None))
    if not 1 <= k <= experts:
        raise ShapeError(f"k: {k} of {experts} experts")
    ids, weights = torch.empty(tokens, k, dtype=torch.int32), torch.empty(tokens, k)
    _native.router_topk(
        *(logits.data_ptr(), tokens, experts, k, normalise), ids.data_ptr(), weights.data_ptr()
    )
    return ids, weights


def expert_ffn(
    x: Tensor,
    gate: QuantMatrix,
    up: QuantMatrix,
    down: QuantMatrix,
    ids: Tensor,
    weights: Tensor,
    activations: Activations = Activations.F32,
) -> Tensor:
    """Sum over a token's experts of weight * down(silu(gate x) * up x).

    x        (tokens, hidden)
    gate, up stacks of (ff, hidden); down a stack of (hidden, ff)
    ids      (tokens, k) int32; a negative id is skipped
    weights  (tokens, k)
    returns  (tokens, hidden), summed in the order of ids
    """
    tokens, hidden = _shaped("x", x, (None, gate.cols))
    _, k = _shaped("ids", ids, (tokens, None), torch.int32)
    _shaped("weights", weights, (tokens, k))
    sizes = (gate.rows, hidden, gate.num_experts)
    if (up.rows, up.cols, up.num_experts) != sizes:
        raise ShapeError(f"up: {(up.rows, up.cols, up.num_experts)}, gate has {sizes}")
    if (down.cols, down.rows, down.num_experts) != sizes:
        raise ShapeError(f"down: {(down.cols, down.rows, down.num_experts)}, gate has {sizes}")
    if ids.numel() and int(ids.max()) >= gate.num_experts:
        raise ShapeError(f"ids: an expert beyond {gate.num_experts - 1}")
    out = torch.empty(tokens, hidden)
    _native.expert_ffn(
        *(x.data_ptr(), tokens, k, gate.native, up.native, down.native),
        *(ids.data_ptr(), weights.data_ptr(), activations is Activations.INT8, out.data_ptr()),
    )
    return out


def store_kv(source: Tensor, pool: Tensor, slots: Tensor) -> None:
    """Write keys or values into the paged pool.

    source  (tokens, kv_heads, head_dim)
    pool    (num_pages, page_tokens, kv_heads, head_dim) float32 or float16
    slots   (tokens,) int64, page * page_tokens + position within the page
    """
    tokens, kv_heads, head_dim = _shaped("source", source, (None, None, None))
    _checked_head("source", head_dim)
    pages, page_tokens, *_ = _shaped("pool", pool, (None, None, kv_heads, head_dim), pool.dtype)
    _shaped("slots", slots, (tokens,), torch.int64)
    if tokens and not 0 <= int(slots.min()) <= int(slots.max()) < pages * page_tokens:
        raise ShapeError(f"slots: outside the pool of {pages * page_tokens}")
    _native.store_kv(
        *(source.data_ptr(), pool.data_ptr(), _is_half(pool), slots.data_ptr()),
        *(tokens, kv_heads * head_dim),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedTokens:
    """Where the query tokens of a step stand.

    page_table  (sequences, pages_max) int32
    sequence    (tokens,) int32, row of page_table
    positions   (tokens,) int32
    """

    page_table: Tensor
    sequence: Tensor
    positions: Tensor


def attention(
    q: Tensor, k_pool: Tensor, v_pool: Tensor, tokens: PagedTokens, *, scale: float
) -> Tensor:
    """Causal attention of each token to positions 0..its own of its sequence.

    q               (tokens, heads, head_dim); heads is a multiple of kv_heads
    k_pool, v_pool  (num_pages, page_tokens, kv_heads, head_dim) float32 or float16
    returns         (tokens, heads, head_dim)
    """
    count, heads, head_dim = _shaped("q", q, (None, None, None))
    shape = (None, None, None, head_dim)
    pages, page_tokens, kv_heads, _ = _shaped("k_pool", k_pool, shape, k_pool.dtype)
    _shaped("v_pool", v_pool, tuple(k_pool.shape), k_pool.dtype)
    sequences, pages_max = _shaped("page_table", tokens.page_table, (None, None), torch.int32)
    _shaped("sequence", tokens.sequence, (count,), torch.int32)
    _shaped("positions", tokens.positions, (count,), torch.int32)
    _checked_head("q", head_dim)
    if not kv_heads or heads % kv_heads:
        raise ShapeError(f"q: {heads} heads do not share {kv_heads} key heads")
    if count:
        _check_places(tokens, pages, pages_max * page_tokens, sequences)
    out = torch.empty_like(q)
    _native.attention(
        *(q.data_ptr(), out.data_ptr(), k_pool.data_ptr(), v_pool.data_ptr(), _is_half(k_pool)),
        *(tokens.page_table.data_ptr(), tokens.sequence.data_ptr(), tokens.positions.data_ptr()),
        *([count, heads, kv_heads, head_dim, page_tokens, pages_max], scale),
    )
    return out


def _check_places(tokens: PagedTokens, pages: int, positions_max: int, sequences: int) -> None:
    if not 0 <= int(tokens.sequence.min()) <= int(tokens.sequence.max()) < sequences:
        raise ShapeError(f"sequence: outside 0..{sequences - 1}")
    if not 0 <= int(tokens.positions.min()) <= int(tokens.positions.max()) < positions_max:
        raise ShapeError(f"positions: outside 0..{positions_max - 1}, what the page table covers")
    table = tokens.page_table
    if not 0 <= int(table.min()) <= int(table.max()) < pages:
        raise ShapeError(f"page_table: a page outside 0..{pages - 1}")


def dequantize(w: QuantMatrix) -> Tensor:
    """(num_experts * rows, cols), the exact float32 values of w; for tests and small tables."""
    out = torch.empty(w.num_experts * w.rows, w.cols)
    _native.dequantize(w.native, out.data_ptr())
    return out


def _checked_head(name: str, head_dim: int) -> None:
    if head_dim % 8 or not 0 < head_dim <= HEAD_DIM_MAX:
        raise ShapeError(f"{name}: heads of {head_dim}, a multiple of 8 to {HEAD_DIM_MAX} expected")


def _is_half(pool: Tensor) -> bool:
    if pool.dtype not in (torch.float32, torch.float16):
        raise ShapeError(f"pool: {pool.dtype} is neither float32 nor float16")
    return pool.dtype is torch.float16


def _shaped(
    name: str, x: Tensor, shape: tuple[int | None, ...], dtype: torch.dtype = torch.float32
) -> tuple[int, ...]:
    """The shape of x, which must agree with `shape` where that says a number."""
    actual = tuple(x.shape)
    if len(actual) != len(shape) or any(
        want is not None and want != have for want, have in zip(shape, actual, strict=True)
    ):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise ShapeError(f"{name}: shape {actual}, {wanted} expected")
    _checked(name, x, dtype)
    return actual


def _checked(name: str, x: Tensor, dtype: torch.dtype) -> None:
    if x.dtype is not dtype:
        raise ShapeError(f"{name}: {x.dtype}, {dtype} expected")
    if not x.is_contiguous():
        raise ShapeError(f"{name}: not contiguous")
    if x.device.type != "cpu":
        raise ShapeError(f"{name}: on {x.device}, the CPU expected")
