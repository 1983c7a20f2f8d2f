"""attention over more positions than one part holds, and over selected blocks."""

from __future__ import annotations

import pytest
import torch

from engine.kernels import ops, reference
from engine.kernels.ops import PagedTokens, Selection

PAGE_TOKENS, PAGES_MAX = 16, 110
POOLS = {"f32": torch.float32, "f16": torch.float16}
each_pool = pytest.mark.parametrize("dtype", POOLS.values(), ids=POOLS.keys())


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def places(positions: list[int], sequence: list[int] | None = None) -> PagedTokens:
    """Tokens of two sequences in scrambled pages; of the first one unless `sequence` says more."""
    order = torch.randperm(2 * PAGES_MAX, generator=torch.Generator().manual_seed(2))
    return PagedTokens(
        page_table=order.view(2, PAGES_MAX).int(),
        sequence=ints(sequence or [0] * len(positions)),
        positions=ints(positions),
    )


def pools(
    dtype: torch.dtype = torch.float32, *, kv_heads: int = 2, head_dim: int = 16
) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (2 * PAGES_MAX, PAGE_TOKENS, kv_heads, head_dim)
    return random(*shape, seed=3).to(dtype), random(*shape, seed=4).to(dtype)


def some_blocks(tokens: PagedTokens, *, ratio: int, best: int) -> Selection:
    """At most `best` random complete blocks of each token, at least one where there is one."""
    generator = torch.Generator().manual_seed(5)
    blocks = torch.full((tokens.positions.numel(), best), -1, dtype=torch.int32)
    for row, position in zip(blocks, tokens.positions.tolist(), strict=True):
        chosen = torch.randperm((position + 1) // ratio, generator=generator)[:best].sort().values
        row[: len(chosen)] = chosen
    return Selection(blocks=blocks, ratio=ratio)


@each_pool
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (6, 2), (12, 2), (5, 1)])
def test_attention_over_several_parts_equals_plain_softmax(
    heads: int, kv_heads: int, dtype: torch.dtype, variant: str
) -> None:
    keys, values = pools(dtype, kv_heads=kv_heads)
    tokens = places([510, 511, 512, 1023, 1024, 1700], [0, 1, 0, 1, 1, 0])
    q = random(6, heads, 16, seed=6)
    actual = ops.attention(q, keys, values, tokens, scale=0.25)
    expected = reference.attention(q, keys, values, tokens, scale=0.25)
    assert torch.allclose(actual, expected, rtol=0, atol=5e-6)


def test_part_of_far_lower_scores_adds_nothing(variant: str) -> None:
    (keys, values), tokens = pools(head_dim=8), places([1100])
    keys.zero_()
    page = int(tokens.page_table[0, 40])  # positions 640 on: the second of three parts
    keys[page, 3, 0, 0], keys[page, 3, 1, 0] = 200.0, 200.0
    q = torch.zeros(1, 4, 8)
    q[..., 0] = 1.0
    out = ops.attention(q, keys, values, tokens, scale=1.0)
    assert torch.equal(out[0], values[page, 3].repeat_interleave(2, dim=0))


@pytest.mark.parametrize("position", [3, 511, 512, 1024])
def test_nan_in_any_part_reaches_the_result(position: int, variant: str) -> None:
    (keys, values), tokens = pools(), places([1024, 1024], [0, 1])
    page = int(tokens.page_table[0, position // PAGE_TOKENS])
    keys[page, position % PAGE_TOKENS, :, 2] = float("nan")
    out = ops.attention(random(2, 4, 16, seed=6), keys, values, tokens, scale=0.25)
    assert bool(out[0].isnan().all())
    assert bool(out[1].isfinite().all())


@each_pool
@pytest.mark.parametrize(("ratio", "best"), [(1, 1), (4, 3), (4, 200), (7, 90), (16, 64)])
def test_attention_to_selected_blocks_equals_plain_softmax(
    ratio: int, best: int, dtype: torch.dtype, variant: str
) -> None:
    keys, values = pools(dtype)
    tokens = places([0, 2, 3, 700, 1699, 1024], [1, 0, 0, 1, 1, 0])
    selection, q = some_blocks(tokens, ratio=ratio, best=best), random(6, 6, 16, seed=6)
    args = (q, keys, values, tokens)
    actual = ops.attention(*args, scale=0.25, selection=selection)
    expected = reference.attention(*args, scale=0.25, selection=selection)
    assert torch.allclose(actual, expected, rtol=0, atol=5e-6)


@each_pool
@pytest.mark.parametrize("ratio", [1, 4, 5])
def test_every_block_selected_has_the_bits_of_no_selection(
    ratio: int, dtype: torch.dtype, variant: str
) -> None:
    keys, values = pools(dtype)
    tokens, q = places([0, 3, 4, 511, 512, 1499, 1500]), random(7, 6, 16, seed=6)
    selection = some_blocks(tokens, ratio=ratio, best=1501)
    args = (q, keys, values, tokens)
    chosen = ops.attention(*args, scale=0.25, selection=selection)
    assert torch.equal(chosen, ops.attention(*args, scale=0.25))


@each_pool
def test_what_is_not_selected_is_never_read(dtype: torch.dtype, variant: str) -> None:
    (keys, values), tokens = pools(dtype), places([1501])
    selection, q = some_blocks(tokens, ratio=4, best=180), random(1, 6, 16, seed=6)
    before = ops.attention(q, keys, values, tokens, scale=0.25, selection=selection)
    for position in range(1700):
        if position // 4 not in selection.blocks[0].tolist() and position not in (1500, 1501):
            page = int(tokens.page_table[0, position // PAGE_TOKENS])
            keys[page, position % PAGE_TOKENS] = float("nan")
            values[page, position % PAGE_TOKENS] = float("nan")
    after = ops.attention(q, keys, values, tokens, scale=0.25, selection=selection)
    assert bool(before.isfinite().all())
    assert torch.equal(before, after)


def test_token_that_ends_a_block_is_seen_only_with_it(variant: str) -> None:
    (keys, values), tokens = pools(head_dim=8), places([7])
    page = int(tokens.page_table[0, 0])
    selection = Selection(blocks=ints([0]).view(1, 1), ratio=4)
    keys[page, 4:], values[page, 4:] = float("nan"), float("nan")
    out = ops.attention(torch.zeros(1, 2, 8), keys, values, tokens, scale=1, selection=selection)
    assert torch.allclose(out[0], values[page, :4].mean(0), rtol=0, atol=1e-6)


def test_scratch_too_small_for_all_tokens_changes_nothing(variant: str) -> None:
    keys, values = pools(head_dim=128)
    positions = [t % 9 for t in range(600)]  # 600 tokens of 16 heads of 130 exceed 2^20 floats
    q = random(600, 16, 128, seed=6)
    out = ops.attention(q, keys, values, places(positions), scale=0.1)
    for t in (0, 503, 504, 505, 599):
        one = ops.attention(q[t : t + 1], keys, values, places([positions[t]]), scale=0.1)
        assert torch.equal(out[t : t + 1], one)
