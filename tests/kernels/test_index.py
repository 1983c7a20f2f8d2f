"""pool_index_keys and select_blocks over scrambled pages, against plain loops in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from engine.kernels import ops, reference
from engine.kernels.ops import PagedTokens, Selection, Spans

POOLS = {"f32": torch.float32, "f16": torch.float16}
each_pool = pytest.mark.parametrize("dtype", POOLS.values(), ids=POOLS.keys())
EPS = 1e-6
Op = Callable[..., None]


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def whole(*shape: int, seed: int = 1) -> torch.Tensor:
    """Small whole numbers: products and sums of them are exact, and many are equal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-2, 3, shape, generator=generator).float()


def ints(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def page_table(sequences: int, pages_max: int) -> torch.Tensor:
    """The pages of a pool in no order."""
    order = torch.randperm(sequences * pages_max, generator=torch.Generator().manual_seed(2))
    return order.view(sequences, pages_max).int()


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Block keys of three sequences of up to `pages_max` pages, and their unfinished sums."""

    pool: torch.Tensor
    partial: torch.Tensor
    page_table: torch.Tensor
    weight: torch.Tensor
    inv_freq: torch.Tensor
    ratio: int

    def add(self, pool_index_keys: Op, raw: torch.Tensor, at: list[tuple[int, int, int]]) -> None:
        """Adds raw keys of entries (sequence, first position, count), one after the other.

        The sum of sequence s lies in slot 2 - s.
        """
        counts = [count for _, _, count in at]
        tokens = PagedTokens(
            page_table=self.page_table,
            sequence=ints([sequence for sequence, _, count in at for _ in range(count)]),
            positions=ints([first + i for _, first, count in at for i in range(count)]),
        )
        spans = Spans(
            offsets=ints([0, *np.cumsum(counts).tolist()]), slots=ints([2 - s for s, _, _ in at])
        )
        pool_index_keys(
            *(raw, self.weight, EPS, self.inv_freq, self.pool, self.partial, tokens, spans),
            ratio=self.ratio,
        )

    def copy(self) -> Index:
        return replace(self, pool=self.pool.clone(), partial=self.partial.clone())


def make_index(
    dtype: torch.dtype = torch.float32,
    *,
    dim: int = 16,
    pairs: int = 4,
    page_blocks: int = 3,
    ratio: int = 4,
    pages_max: int = 6,
) -> Index:
    """Nothing is written yet: the pool is full of 7, the sums are NaN."""
    return Index(
        pool=torch.full((3 * pages_max, page_blocks, dim), 7.0, dtype=dtype),
        partial=torch.full((3, dim), float("nan")),
        page_table=page_table(3, pages_max),
        weight=random(dim, seed=5),
        inv_freq=torch.logspace(0, -3, pairs, dtype=torch.float64),
        ratio=ratio,
    )


def assert_close(actual: Index, expected: Index) -> None:
    bound = 1e-5 if actual.pool.dtype is torch.float32 else 4e-3  # a rounding step of F16
    assert torch.allclose(actual.pool.float(), expected.pool.float(), rtol=bound, atol=bound)
    assert torch.allclose(actual.partial, expected.partial, rtol=1e-5, atol=1e-5, equal_nan=True)


# pool_index_keys


@each_pool
@pytest.mark.parametrize(("dim", "pairs"), [(8, 0), (16, 8), (72, 5), (128, 32)])
@pytest.mark.parametrize(("ratio", "page_blocks"), [(1, 4), (3, 1), (4, 4)])
def test_pool_index_keys_equals_the_reference(
    *, ratio: int, page_blocks: int, dim: int, pairs: int, dtype: torch.dtype, variant: str
) -> None:
    ours = make_index(dtype, dim=dim, pairs=pairs, page_blocks=page_blocks, ratio=ratio)
    plain, raw = ours.copy(), random(18, dim)
    for entries in ([(1, 0, 5), (0, 0, 1), (2, 0, 12)], [(0, 1, 3), (1, 5, 7)]):
        count = sum(entry[2] for entry in entries)
        ours.add(ops.pool_index_keys, raw[:count], entries)
        plain.add(reference.pool_index_keys, raw[:count], entries)
        assert_close(ours, plain)
    assert bool((ours.pool == 7).any())  # blocks that are not complete stay as they were


@each_pool
@pytest.mark.parametrize("chunks", [(1, 39), (20, 20), (13, 13, 14), (1,) * 40])
def test_pool_index_keys_has_the_same_bits_in_any_chunks(
    chunks: tuple[int, ...], dtype: torch.dtype, variant: str
) -> None:
    at_once, in_chunks = make_index(dtype), make_index(dtype)
    raw, first = random(40, 16), 0
    at_once.add(ops.pool_index_keys, raw, [(1, 0, 40)])
    for count in chunks:
        company = random(5, 16, seed=first)  # another sequence in the same call
        mine = raw[first : first + count]
        in_chunks.add(
            ops.pool_index_keys, torch.cat([company, mine]), [(0, 0, 5), (1, first, count)]
        )
        first += count
    rows = at_once.page_table[1].long()
    assert torch.equal(in_chunks.pool[rows], at_once.pool[rows])
    assert torch.equal(in_chunks.partial[1], at_once.partial[1])


def test_pool_index_keys_has_the_same_bits_on_any_number_of_threads(variant: str) -> None:
    raw, pools = random(72, 16), []
    for threads in (1, 2, 4):
        ops.set_num_threads(threads)
        index = make_index()
        index.add(ops.pool_index_keys, raw, [(2, 0, 32), (0, 0, 40)])
        pools.append(index.pool)
    assert torch.equal(pools[0], pools[1])
    assert torch.equal(pools[0], pools[2])


def test_key_is_the_mean_of_its_tokens_normed_and_turned_to_the_first(variant: str) -> None:
    index, raw = make_index(), random(8, 16)
    index.add(ops.pool_index_keys, raw, [(0, 0, 8)])
    key = ops.rms_norm(raw[4:].sum(0) / 4, index.weight, EPS).view(1, 1, 16)
    ops.rope(key, ints([4]), index.inv_freq, ops.RopeStyle.NEOX)
    stored = index.pool[index.page_table[0, 0].long(), 1]
    assert torch.allclose(stored, key.view(-1), rtol=0, atol=1e-6)


def test_key_of_a_block_with_nan_is_nan_and_no_other(variant: str) -> None:
    index, raw = make_index(), random(12, 16)
    raw[5, 3] = float("nan")
    index.add(ops.pool_index_keys, raw, [(0, 0, 12)])
    keys = index.pool[index.page_table[0, 0].long()]
    assert bool(keys[1].isnan().all())
    assert bool(keys[[0, 2]].isfinite().all())


def test_no_tokens_leave_pool_and_sums_alone(variant: str) -> None:
    index = make_index()
    index.add(ops.pool_index_keys, torch.zeros(0, 16), [(1, 9, 0)])
    assert bool((index.pool == 7).all())
    assert bool(index.partial.isnan().all())


# select_blocks


def queries_at(positions: list[int], sequence: list[int], pages_max: int) -> PagedTokens:
    return PagedTokens(
        page_table=page_table(3, pages_max), sequence=ints(sequence), positions=ints(positions)
    )


@each_pool
@pytest.mark.parametrize("heads", [1, 3, 4, 6])
@pytest.mark.parametrize("best", [1, 7, 16, 200])
@pytest.mark.parametrize(("ratio", "page_blocks"), [(1, 8), (4, 5)])
def test_select_blocks_equals_the_reference_with_many_ties(
    *, ratio: int, page_blocks: int, best: int, heads: int, dtype: torch.dtype, variant: str
) -> None:
    pages_max = -(-300 // page_blocks)
    pool = whole(3 * pages_max, page_blocks, 8).to(dtype)
    places = [0, 1, ratio * 16, 299 * ratio, 299 * ratio + ratio - 1, 40 * ratio]
    tokens = queries_at(places, [0, 0, 1, 2, 2, 2], pages_max)
    q = whole(6, heads, 8, seed=3)
    actual = ops.select_blocks(q, pool, tokens, ratio=ratio, best=best)
    expected = reference.select_blocks(q, pool, tokens, ratio=ratio, best=best)
    assert torch.equal(actual, expected)


@each_pool
@pytest.mark.parametrize("dim", [8, 24, 128])
def test_select_blocks_equals_the_reference_on_real_numbers(
    dim: int, dtype: torch.dtype, variant: str
) -> None:
    pool = random(3 * 20, 16, dim).to(dtype)
    tokens = queries_at([1279, 900, 1278, 30], [0, 1, 0, 2], 20)
    q = random(4, 4, dim, seed=3)
    actual = ops.select_blocks(q, pool, tokens, ratio=4, best=32)
    assert torch.equal(actual, reference.select_blocks(q, pool, tokens, ratio=4, best=32))


def test_equal_scores_go_to_the_lower_block(variant: str) -> None:
    pool, tokens = torch.zeros(3 * 4, 16, 8), queries_at([63], [1], 4)
    pool[tokens.page_table[1].long()[2], 3] = 1.0  # block 35
    blocks = ops.select_blocks(torch.ones(1, 2, 8), pool, tokens, ratio=1, best=4)
    assert blocks.tolist() == [[0, 1, 2, 35]]


def test_nan_scores_come_last(variant: str) -> None:
    pool, tokens = torch.zeros(3 * 4, 16, 8), queries_at([63], [1], 4)
    pool[tokens.page_table[1].long()[0]] = float("nan")  # blocks 0 to 15
    pool[tokens.page_table[1].long()[1], 0] = float("inf")  # block 16
    blocks = ops.select_blocks(torch.ones(1, 2, 8), pool, tokens, ratio=1, best=50)
    assert blocks.tolist() == [[0, 1, *range(16, 64)]]
    queries = torch.full((1, 2, 8), float("nan"))
    blocks = ops.select_blocks(queries, pool, tokens, ratio=1, best=5)
    assert blocks.tolist() == [[0, 1, 2, 3, 4]]


def test_block_counts_from_its_last_token_on(variant: str) -> None:
    pool, tokens = random(3 * 4, 2, 8), queries_at([6, 7, 2], [0, 0, 1], 4)
    blocks = ops.select_blocks(random(3, 2, 8), pool, tokens, ratio=4, best=3)
    assert blocks.tolist() == [[0, -1, -1], [0, 1, -1], [-1, -1, -1]]


def test_scratch_too_small_for_all_tokens_changes_nothing(variant: str) -> None:
    pages_max, tokens = 20, 70  # 70 tokens of 16,000 blocks exceed 2^20 scores
    pool = whole(3 * pages_max, 800, 8)
    places = [16000 - 3 * t for t in range(tokens)]
    at = queries_at([place - 1 for place in places], [t % 3 for t in range(tokens)], pages_max)
    q = whole(tokens, 1, 8, seed=3)
    blocks = ops.select_blocks(q, pool, at, ratio=1, best=8)
    for t in (0, 35, 64, 65, 66, 69):
        one = queries_at([places[t] - 1], [t % 3], pages_max)
        assert torch.equal(
            ops.select_blocks(q[t : t + 1], pool, one, ratio=1, best=8)[0], blocks[t]
        )
    few = queries_at([places[69] - 1], [0], pages_max)
    assert torch.equal(blocks[69:], reference.select_blocks(q[69:], pool, few, ratio=1, best=8))


def test_select_blocks_of_no_tokens_is_empty(variant: str) -> None:
    pool, tokens = random(3 * 4, 2, 8), queries_at([], [], 4)
    assert ops.select_blocks(torch.zeros(0, 2, 8), pool, tokens, ratio=4, best=3).shape == (0, 3)


# All three ops against the rule itself


def allowed_positions(
    q: NDArray[np.float64], keys: NDArray[np.float64], *, ratio: int, best: int
) -> NDArray[np.bool_]:
    """(tokens, tokens): what each token may attend to. q (tokens, heads, dim), keys (blocks, dim).

    Source: the model's description: the best complete blocks, and all behind the last of them.
    """
    time = len(q)
    mask = np.zeros((time, time), np.bool_)
    for t in range(time):
        complete = (t + 1) // ratio
        scores = [sum(max(0.0, float(head @ keys[m])) for head in q[t]) for m in range(complete)]
        order = sorted(range(complete), key=lambda m: (-scores[m], m))
        for m in order[:best]:
            mask[t, m * ratio : (m + 1) * ratio] = True
        mask[t, complete * ratio : t + 1] = True
    return mask


def plain_keys(raw: NDArray[np.float64], index: Index) -> NDArray[np.float64]:
    """(blocks, dim): mean, norm and turn of each complete block of raw (tokens, dim)."""
    ratio, pairs = index.ratio, len(index.inv_freq)
    means = raw[: len(raw) // ratio * ratio].reshape(-1, ratio, raw.shape[1]).mean(1)
    keys: NDArray[np.float64]
    keys = means / np.sqrt((means**2).mean(1, keepdims=True) + EPS) * index.weight.numpy()
    angles = np.arange(len(keys))[:, None] * ratio * index.inv_freq.numpy()
    a, b = keys[:, :pairs].copy(), keys[:, pairs : 2 * pairs].copy()
    keys[:, :pairs] = a * np.cos(angles) - b * np.sin(angles)
    keys[:, pairs : 2 * pairs] = b * np.cos(angles) + a * np.sin(angles)
    return keys


def test_tokens_attend_to_what_the_rule_allows(variant: str) -> None:
    index, time, best = make_index(page_blocks=4), 90, 5
    raw, q, queries = random(time, 16), random(time, 3, 16, seed=2), random(time, 4, 8, seed=3)
    index.add(ops.pool_index_keys, raw, [(1, 0, time)])
    tokens = PagedTokens(
        page_table=index.page_table,
        sequence=torch.ones(time, dtype=torch.int32),
        positions=torch.arange(time, dtype=torch.int32),
    )
    blocks = ops.select_blocks(q, index.pool, tokens, ratio=4, best=best)
    keys, values = random(18, 16, 2, 8, seed=4), random(18, 16, 2, 8, seed=5)
    out = ops.attention(
        *(queries, keys, values, tokens), scale=0.5, selection=Selection(blocks=blocks, ratio=4)
    )
    mask = allowed_positions(
        q.double().numpy(), plain_keys(raw.double().numpy(), index), ratio=4, best=best
    )
    pages = index.page_table[1].long()
    k, v = (pool[pages].flatten(0, 1)[:time].double() for pool in (keys, values))
    scores = torch.einsum("thd,shd->hts", queries.double(), k.repeat_interleave(2, 1)) * 0.5
    scores = scores.masked_fill(~torch.from_numpy(mask), float("-inf"))
    expected = torch.einsum("hts,shd->thd", scores.softmax(-1), v.repeat_interleave(2, 1))
    assert torch.allclose(out.double(), expected, rtol=0, atol=5e-6)
