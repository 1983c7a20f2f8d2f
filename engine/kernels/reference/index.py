"""Plain keys of blocks and plain choice among them, token by token."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.kernels.ops import PagedTokens, RopeStyle, Spans
from engine.kernels.reference.dense import rms_norm, rope


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
    """Write rope(rms_norm(mean of `ratio` raw keys)) of every block that a token completes.

    raw (tokens, dim), pool (num_pages, page_blocks, dim), partial (slots, dim) in place
    """
    for span, slot in enumerate(spans.slots.tolist()):
        total = partial[slot].double()
        for t in range(int(spans.offsets[span]), int(spans.offsets[span + 1])):
            position = int(tokens.positions[t])
            total = raw[t].double() + (total if position % ratio else 0)
            if (position + 1) % ratio == 0:
                key = rms_norm(total / ratio, weight, eps).view(1, 1, -1)
                first = torch.tensor([position + 1 - ratio], dtype=torch.int32)
                rope(key, first, inv_freq, RopeStyle.NEOX)
                page, row = divmod(position // ratio, pool.shape[1])
                pool[tokens.page_table[tokens.sequence[t], page].long(), row] = key.view(-1)
        partial[slot] = total.float()


def select_blocks(q: Tensor, pool: Tensor, tokens: PagedTokens, *, ratio: int, best: int) -> Tensor:
    """The `best` complete blocks of each token by sum over heads of max(0, q . key), ascending.

    q (tokens, heads, dim), pool (num_pages, page_blocks, dim) -> (tokens, best) int32, -1 behind
    """
    blocks = torch.full((q.shape[0], best), -1, dtype=torch.int32)
    for t in range(q.shape[0]):
        complete = (int(tokens.positions[t]) + 1) // ratio
        pages = tokens.page_table[tokens.sequence[t]].long()
        keys = pool[pages].flatten(0, 1)[:complete].double().numpy()
        scores = np.maximum(q[t].double().numpy() @ keys.T, 0).sum(0)
        scores[np.isnan(scores)] = -1
        chosen = np.sort(np.argsort(-scores, kind="stable")[:best])
        blocks[t, : len(chosen)] = torch.from_numpy(chosen.astype(np.int32))
    return blocks
