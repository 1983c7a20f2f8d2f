"""Keys and values in pages: writing them, and attention over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import ShapeError
from engine.kernels import _native
from engine.kernels.ops.checks import checked_head, is_half, shaped


def store_kv(source: Tensor, pool: Tensor, slots: Tensor) -> None:
    """Write keys or values into the paged pool.

    source  (tokens, kv_heads, head_dim)
    pool    (num_pages, page_tokens, kv_heads, head_dim) float32 or float16
    slots   (tokens,) int64, page * page_tokens + position within the page
    """
    tokens, kv_heads, head_dim = shaped("source", source, (None, None, None))
    checked_head("source", head_dim)
    pages, page_tokens, *_ = shaped("pool", pool, (None, None, kv_heads, head_dim), pool.dtype)
    shaped("slots", slots, (tokens,), torch.int64)
    if tokens and not 0 <= int(slots.min()) <= int(slots.max()) < pages * page_tokens:
        raise ShapeError(f"slots: outside the pool of {pages * page_tokens}")
    _native.store_kv(
        *(source.data_ptr(), pool.data_ptr(), is_half(pool), slots.data_ptr()),
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
    count, heads, head_dim = shaped("q", q, (None, None, None))
    shape = (None, None, None, head_dim)
    pages, page_tokens, kv_heads, _ = shaped("k_pool", k_pool, shape, k_pool.dtype)
    shaped("v_pool", v_pool, tuple(k_pool.shape), k_pool.dtype)
    sequences, pages_max = shaped("page_table", tokens.page_table, (None, None), torch.int32)
    shaped("sequence", tokens.sequence, (count,), torch.int32)
    shaped("positions", tokens.positions, (count,), torch.int32)
    checked_head("q", head_dim)
    if not kv_heads or heads % kv_heads:
        raise ShapeError(f"q: {heads} heads do not share {kv_heads} key heads")
    if count:
        _check_places(tokens, pages, pages_max * page_tokens, sequences)
    out = torch.empty_like(q)
    _native.attention(
        *(q.data_ptr(), out.data_ptr(), k_pool.data_ptr(), v_pool.data_ptr(), is_half(k_pool)),
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
