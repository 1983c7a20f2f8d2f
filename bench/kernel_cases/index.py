"""The sparse index: pooling keys and choosing blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from kernel_cases.case import Case

from engine.kernels import ops, reference
from engine.kernels.ops import PagedTokens, Spans

HEADS, DIM, RATIO, BEST = 4, 128, 4, 512
PAGE_BLOCKS = 16
POOLS = ((torch.float32, "f32"), (torch.float16, "f16"))


def _places(first: int, tokens: int) -> PagedTokens:
    """Consecutive positions of one sequence in scrambled pages."""
    pages = -(-(first + tokens) // (PAGE_BLOCKS * RATIO))
    order = torch.randperm(pages, generator=torch.Generator().manual_seed(1))
    return PagedTokens(
        page_table=order.view(1, pages).int(),
        sequence=torch.zeros(tokens, dtype=torch.int32),
        positions=torch.arange(first, first + tokens, dtype=torch.int32),
    )


def _pool(tokens: PagedTokens, dtype: torch.dtype) -> torch.Tensor:
    shape = (tokens.page_table.numel(), PAGE_BLOCKS, DIM)
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(dtype)


@dataclass(frozen=True, slots=True)
class _Pooling:
    """Raw keys of one sequence on their way into a pool."""

    raw: torch.Tensor
    tokens: PagedTokens
    pool: torch.Tensor

    def result(self, pool_index_keys: Callable[..., None]) -> torch.Tensor:
        spans = Spans(
            offsets=torch.tensor([0, len(self.raw)], dtype=torch.int32),
            slots=torch.zeros(1, dtype=torch.int32),
        )
        inv_freq = 1e7 ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        partial = torch.zeros(1, DIM)
        pool_index_keys(
            *(self.raw, torch.ones(DIM), 1e-6, inv_freq, self.pool, partial, self.tokens, spans),
            ratio=RATIO,
        )
        return self.pool.float()


def pool_index_keys() -> Iterator[Case]:
    """A chunk of 512 tokens behind 65,536 into either kind of pool."""
    for dtype, name in POOLS:
        tokens = _places(65536, 512)
        raw = torch.randn(512, DIM, generator=torch.Generator().manual_seed(3))
        pooling = _Pooling(raw, tokens, _pool(tokens, dtype))
        element = pooling.pool.element_size()
        yield Case(
            op="pool_index_keys",
            name=f"{name} 512 tokens",
            run=lambda p=pooling: p.result(ops.pool_index_keys),  # type: ignore[misc]
            actual=lambda p=pooling: p.result(ops.pool_index_keys),  # type: ignore[misc]
            expected=lambda p=pooling: p.result(reference.pool_index_keys),  # type: ignore[misc]
            num_bytes=raw.numel() * 4 + raw.numel() // RATIO * element,
            operations=0,
            tolerance=1e-3,  # a rounding step of float16
        )


def select_blocks() -> Iterator[Case]:
    """One token, and a chunk of 64, at 65,536 positions."""
    for dtype, name in POOLS:
        for count in (1, 64):
            tokens = _places(65536, count)
            yield _select_blocks(tokens, _pool(tokens, dtype), f"{name} {count} tokens at 65536")


def _select_blocks(tokens: PagedTokens, pool: torch.Tensor, name: str) -> Case:
    """Checked on whole numbers: their scores are exact, so the choice has one answer."""
    count = tokens.positions.numel()
    q = torch.randn(count, HEADS, DIM, generator=torch.Generator().manual_seed(4))
    rounded, keys = q[:4].round().contiguous(), pool.float().round().to(pool.dtype)
    few = PagedTokens(
        page_table=tokens.page_table,
        sequence=tokens.sequence[:4].clone(),
        positions=tokens.positions[:4].clone(),
    )
    blocks = int(((tokens.positions + 1) // RATIO).max())
    return Case(
        op="select_blocks",
        name=name,
        run=lambda: ops.select_blocks(q, pool, tokens, ratio=RATIO, best=BEST),
        actual=lambda: ops.select_blocks(rounded, keys, few, ratio=RATIO, best=BEST),
        expected=lambda: reference.select_blocks(rounded, keys, few, ratio=RATIO, best=BEST),
        num_bytes=blocks * DIM * pool.element_size(),
        operations=2 * count * blocks * HEADS * DIM,
        tolerance=0.0,
    )


CASES: tuple[Callable[[], Iterator[Case]], ...] = (pool_index_keys, select_blocks)
