"""The sparse index: one key for each complete block of positions, and the blocks a token selects.

`select_blocks` gives what `attention` takes as a `Selection`. Called by attention layers that have
an indexer.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.errors import ShapeError
from engine.kernels import _native
from engine.kernels.ops.checks import checked_head, is_half, shaped
from engine.kernels.ops.paged import PagedTokens, checked_places, checked_ratio
from engine.kernels.ops.record import empty
from engine.kernels.ops.spans import Spans, checked_spans


def pool_index_keys(
    raw: Tensor,
    weight: Tensor,
    eps: float,
    inv_freq: Tensor,
    pool: Tensor,
    partial: Tensor,
    tokens: PagedTokens,
    spans: Spans,
    *,
    ratio: int,
) -> None:
    """Write the keys of the blocks that a step completes, and keep the sums of those it does not.

    The key of block m is the mean of its `ratio` raw keys, normed with `weight` and then rotated
    (halves) to position ratio * m.

    raw       (tokens, dim) keys without norm or rope
    weight    (dim,)
    inv_freq  (dims / 2,) float64, radians per position; only the first `dims` of a key rotate
    pool      (num_pages, page_blocks, dim) float32 or float16; block m of a sequence is row
              m % page_blocks of page page_table[sequence, m // page_blocks]
    partial   (slots, dim), the sum of a sequence's last block, in place; begun anew by a token
              whose position is a multiple of ratio
    spans     says which tokens follow each other; each is one sequence of `tokens`
    ratio     positions per block; page_blocks * ratio per page
    """
    count, dim = shaped("raw", raw, (None, None))
    checked_head("raw", dim)
    shaped("weight", weight, (dim,))
    (pairs,) = shaped("inv_freq", inv_freq, (None,), torch.float64)
    if 2 * pairs > dim:
        raise ShapeError(f"inv_freq: {pairs} pairs do not fit keys of {dim}")
    pages, page_blocks, _ = shaped("pool", pool, (None, None, dim), pool.dtype)
    slots, _ = shaped("partial", partial, (None, dim))
    checked_ratio(ratio)
    pages_max = checked_places(tokens, count, pages=pages, page_tokens=page_blocks * ratio)
    num_spans = checked_spans(spans, count, slots)
    _check_agreement(tokens, spans)
    _native.pool_index_keys(
        *(raw.data_ptr(), weight.data_ptr(), eps, inv_freq.data_ptr()),
        *(pool.data_ptr(), is_half(pool), partial.data_ptr()),
        *(tokens.page_table.data_ptr(), tokens.sequence.data_ptr(), tokens.positions.data_ptr()),
        *(spans.offsets.data_ptr(), spans.slots.data_ptr()),
        [num_spans, dim, pairs, page_blocks, pages_max, ratio],
    )


def select_blocks(q: Tensor, pool: Tensor, tokens: PagedTokens, *, ratio: int, best: int) -> Tensor:
    """The blocks that each token attends to: the `best` of those complete at its position.

    A block scores the sum over heads of max(0, q . key); of equal ones the lower comes first, and
    NaN comes last. A token that sees at most `best` blocks takes them all, unscored.

    q        (tokens, heads, dim), after norm and rope
    pool     (num_pages, page_blocks, dim) float32 or float16, see `pool_index_keys`
    ratio    positions per block; page_blocks * ratio per page
    returns  (tokens, best) int32, ascending, -1 behind the last
    """
    count, heads, dim = shaped("q", q, (None, None, None))
    checked_head("q", dim)
    pages, page_blocks, _ = shaped("pool", pool, (None, None, dim), pool.dtype)
    checked_ratio(ratio)
    if best < 1:
        raise ShapeError(f"best: {best} blocks")
    pages_max = checked_places(tokens, count, pages=pages, page_tokens=page_blocks * ratio)
    blocks = empty(count, best, dtype=torch.int32)
    _native.select_blocks(
        *(q.data_ptr(), pool.data_ptr(), is_half(pool)),
        *(tokens.page_table.data_ptr(), tokens.sequence.data_ptr(), tokens.positions.data_ptr()),
        [count, heads, dim, page_blocks, pages_max, ratio, best],
        blocks.data_ptr(),
    )
    return blocks


def _check_agreement(tokens: PagedTokens, spans: Spans) -> None:
    """Each span must be consecutive positions of one sequence, and no sequence have two."""
    if id(spans.passed) in tokens.passed:
        return
    place, sequence, offsets = (
        x.numpy() for x in (tokens.positions, tokens.sequence, spans.offsets)
    )
    starts = offsets[:-1][offsets[:-1] < offsets[1:]]
    steady = np.ones(len(place), np.bool_)
    steady[1:] = (place[1:] == place[:-1] + 1) & (sequence[1:] == sequence[:-1])
    steady[starts] = True
    if not steady.all():
        raise ShapeError("spans: one is not consecutive positions of one sequence")
    if len(set(sequence[starts].tolist())) < len(starts):
        raise ShapeError("spans: two are of the same sequence")
    tokens.passed.add(id(spans.passed))
