"""Keys and values in pages: writing them, and attention over all or some of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import ShapeError
from engine.kernels import _native
from engine.kernels.ops.checks import checked_head, is_half, shaped

RATIO_MAX = 1 << 16  # positions per block


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The blocks of positions that each token attends to, beside those not yet in a block.

    blocks  (tokens, best) int32, ascending, -1 behind the last; block m is positions
            ratio * m .. ratio * m + ratio - 1, all of them at or before the token
    ratio   positions per block
    """

    blocks: Tensor
    ratio: int


def attention(
    q: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    tokens: PagedTokens,
    *,
    scale: float,
    selection: Selection | None = None,
) -> Tensor:
    """Causal attention of each token to positions 0..its own of its sequence, or to a selection.

    q               (tokens, heads, head_dim); heads is a multiple of kv_heads
    k_pool, v_pool  (num_pages, page_tokens, kv_heads, head_dim) float32 or float16
    selection       a token at position t attends to its blocks and to the tail ratio * F .. t
                    behind the F = (t + 1) // ratio complete blocks; the tail may be empty, and t
                    then counts only if its block was selected
    returns         (tokens, heads, head_dim)

    Work and memory follow the positions attended to. With every complete block selected the result
    has the bits of a call without a selection.
    """
    count, heads, head_dim = shaped("q", q, (None, None, None))
    shape = (None, None, None, head_dim)
    pages, page_tokens, kv_heads, _ = shaped("k_pool", k_pool, shape, k_pool.dtype)
    shaped("v_pool", v_pool, tuple(k_pool.shape), k_pool.dtype)
    pages_max = checked_places(tokens, count, pages=pages, page_tokens=page_tokens)
    checked_head("q", head_dim)
    if not kv_heads or heads % kv_heads:
        raise ShapeError(f"q: {heads} heads do not share {kv_heads} key heads")
    best, ratio = (0, 0) if selection is None else _checked_selection(selection, tokens.positions)
    out = torch.empty_like(q)
    _native.attention(
        *(q.data_ptr(), out.data_ptr(), k_pool.data_ptr(), v_pool.data_ptr(), is_half(k_pool)),
        *(tokens.page_table.data_ptr(), tokens.sequence.data_ptr(), tokens.positions.data_ptr()),
        0 if selection is None else selection.blocks.data_ptr(),
        [count, heads, kv_heads, head_dim, page_tokens, pages_max, best, ratio],
        scale,
    )
    return out


def checked_places(tokens: PagedTokens, count: int, *, pages: int, page_tokens: int) -> int:
    """pages_max of `count` tokens, all of which stand in pages of a pool of `pages`."""
    sequences, pages_max = shaped("page_table", tokens.page_table, (None, None), torch.int32)
    shaped("sequence", tokens.sequence, (count,), torch.int32)
    shaped("positions", tokens.positions, (count,), torch.int32)
    if not count:
        return pages_max
    if not 0 <= int(tokens.sequence.min()) <= int(tokens.sequence.max()) < sequences:
        raise ShapeError(f"sequence: outside 0..{sequences - 1}")
    positions_max = pages_max * page_tokens
    if not 0 <= int(tokens.positions.min()) <= int(tokens.positions.max()) < positions_max:
        raise ShapeError(f"positions: outside 0..{positions_max - 1}, what the page table covers")
    table = tokens.page_table
    if not 0 <= int(table.min()) <= int(table.max()) < pages:
        raise ShapeError(f"page_table: a page outside 0..{pages - 1}")
    return pages_max


def checked_ratio(ratio: int) -> None:
    if not 1 <= ratio <= RATIO_MAX:
        raise ShapeError(f"ratio: {ratio} positions per block, 1 to {RATIO_MAX} are possible")


def _checked_selection(selection: Selection, positions: Tensor) -> tuple[int, int]:
    """best and ratio of a selection in which every token attends to something."""
    checked_ratio(selection.ratio)
    _, best = shaped("blocks", selection.blocks, (positions.numel(), None), torch.int32)
    if best < 1:
        raise ShapeError("blocks: room for no block")
    # In numpy, whose calls cost a fraction of torch's: a decode step comes here in every layer.
    blocks, ends = selection.blocks.numpy(), positions.numpy() + 1
    before, after = blocks[:, :-1], blocks[:, 1:]
    if (blocks < -1).any() or not ((after == -1) | (before >= 0) & (before < after)).all():
        raise ShapeError("blocks: not ascending with -1 behind the last")
    if (blocks >= (ends // selection.ratio)[:, None]).any():
        raise ShapeError("blocks: a block that is not complete at its token")
    if ((ends % selection.ratio == 0) & (blocks[:, 0] < 0)).any():
        raise ShapeError("blocks: a token without a block or a tail")
    return best, selection.ratio
