"""Keys and values in pages: writing them, and attention over all or some of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.errors import ShapeError
from engine.kernels import _native
from engine.kernels.ops.checks import checked_head, is_half, shaped
from engine.kernels.ops.record import empty

RATIO_MAX = 1 << 16  # positions per block


def store_kv(source: Tensor, pool: Tensor, slots: Tensor) -> None:
    """Write keys or values into the paged pool.

    source  (tokens, kv_heads, head_dim)
    pool    (num_pages, page_tokens, kv_heads, head_dim) float32 or float16
    slots   (tokens,) int64, page * page_tokens + position within the page
    """
    tokens, kv_heads, head_dim = shaped("source", source, (None, None, None))
    checked_head("source", head_dim)
    _checked_pool("pool", pool, slots, (tokens, kv_heads, head_dim))
    addresses = source.data_ptr(), pool.data_ptr()
    _native.store_kv(*addresses, is_half(pool), slots.data_ptr(), tokens, kv_heads * head_dim)


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
    """Queries and gates of gated attention; keys and values go to their pages.

    Queries and keys are rms-normed per head, then rotated (halves).

    both                (tokens, heads, 2, head_dim): per head its query, then its gate
    k, v                (tokens, kv_heads, head_dim)
    q_weight, k_weight  (head_dim,)
    inv_freq            (dims / 2,) float64, radians per position; only the first `dims` rotate
    positions           (tokens,) int32
    slots               (tokens,) int64, page * page_tokens + position within the page
    k_pool, v_pool      (num_pages, page_tokens, kv_heads, head_dim) float32 or float16
    returns             queries (tokens, heads, head_dim), gates (tokens, heads * head_dim)
    """
    tokens, heads, _, head_dim = shaped("both", both, (None, None, 2, None))
    checked_head("both", head_dim)
    _, kv_heads, _ = shaped("k", k, (tokens, None, head_dim))
    shaped("v", v, (tokens, kv_heads, head_dim))
    shaped("q_weight", q_weight, (head_dim,))
    shaped("k_weight", k_weight, (head_dim,))
    (pairs,) = shaped("inv_freq", inv_freq, (None,), torch.float64)
    if 2 * pairs > head_dim:
        raise ShapeError(f"inv_freq: {pairs} pairs do not fit heads of {head_dim}")
    shaped("positions", positions, (tokens,), torch.int32)
    _checked_pool("k_pool", k_pool, slots, (tokens, kv_heads, head_dim))
    shaped("v_pool", v_pool, tuple(k_pool.shape), k_pool.dtype)
    q, gate = empty(tokens, heads, head_dim), empty(tokens, heads * head_dim)
    _native.attention_inputs(
        *(both.data_ptr(), k.data_ptr(), v.data_ptr(), q_weight.data_ptr(), k_weight.data_ptr()),
        eps,
        *(inv_freq.data_ptr(), positions.data_ptr(), slots.data_ptr()),
        *(k_pool.data_ptr(), v_pool.data_ptr()),
        is_half(k_pool),
        *(q.data_ptr(), gate.data_ptr()),
        [tokens, heads, kv_heads, head_dim, pairs],
    )
    return q, gate


def _checked_pool(name: str, pool: Tensor, slots: Tensor, rows: tuple[int, int, int]) -> None:
    """That rows (tokens, kv_heads, head_dim) have places in a pool."""
    tokens, kv_heads, head_dim = rows
    pages, page_tokens, *_ = shaped(name, pool, (None, None, kv_heads, head_dim), pool.dtype)
    shaped("slots", slots, (tokens,), torch.int64)
    if tokens and not 0 <= int(slots.min()) <= int(slots.max()) < pages * page_tokens:
        raise ShapeError(f"slots: outside the pool of {pages * page_tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedTokens:
    """Where the query tokens of a step stand.

    page_table  (sequences, pages_max) int32
    sequence    (tokens,) int32, row of page_table
    positions   (tokens,) int32

    What was checked once is not checked by every op: nobody changes the tensors meanwhile.
    """

    page_table: Tensor
    sequence: Tensor
    positions: Tensor
    passed: set[object] = field(default_factory=set, repr=False, compare=False)


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
    out = empty(*q.shape)
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
    if (count, pages, page_tokens) in tokens.passed:
        return tokens.page_table.shape[1]
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
    tokens.passed.add((count, pages, page_tokens))
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
