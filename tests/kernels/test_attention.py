"""attention and store_kv over scrambled pages, against plain softmax in float64."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from engine.kernels import ops, reference
from engine.kernels.ops import PagedTokens

POOLS = {"f32": torch.float32, "f16": torch.float16}
each_pool = pytest.mark.parametrize("dtype", POOLS.values(), ids=POOLS.keys())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Keys and values of some sequences, in pages that are in no order."""

    keys: torch.Tensor
    values: torch.Tensor
    page_table: torch.Tensor

    def at(self, sequence: list[int], positions: list[int]) -> PagedTokens:
        return PagedTokens(
            page_table=self.page_table,
            sequence=torch.tensor(sequence, dtype=torch.int32),
            positions=torch.tensor(positions, dtype=torch.int32),
        )


def make_cache(
    dtype: torch.dtype, *, kv_heads: int = 2, head_dim: int = 16, page_tokens: int = 8
) -> Cache:
    """Three sequences of up to 40 positions; pages that nobody owns hold NaN."""
    generator = torch.Generator().manual_seed(3)
    pages_max, pages = -(-40 // page_tokens), 3 * -(-40 // page_tokens) + 4
    order = torch.randperm(pages, generator=generator)[: 3 * pages_max]
    shape = (pages, page_tokens, kv_heads, head_dim)
    keys = torch.full(shape, float("nan"))
    values = keys.clone()
    keys[order] = torch.randn(len(order), *shape[1:], generator=generator)
    values[order] = torch.randn(len(order), *shape[1:], generator=generator)
    return Cache(keys=keys.to(dtype), values=values.to(dtype), page_table=order.view(3, -1).int())


def queries(tokens: int, heads: int, head_dim: int) -> torch.Tensor:
    return torch.randn(tokens, heads, head_dim, generator=torch.Generator().manual_seed(4))


@each_pool
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (8, 2), (6, 1), (5, 5)])
@pytest.mark.parametrize(("head_dim", "page_tokens"), [(8, 1), (16, 8), (72, 16), (128, 5)])
def test_attention_equals_plain_softmax(
    *,
    head_dim: int,
    page_tokens: int,
    heads: int,
    kv_heads: int,
    dtype: torch.dtype,
    variant: str,
) -> None:
    cache = make_cache(dtype, kv_heads=kv_heads, head_dim=head_dim, page_tokens=page_tokens)
    places = cache.at([0, 2, 1, 2, 0], [0, 39, 7, 8, 23])
    q = queries(5, heads, head_dim)
    scale = head_dim**-0.5
    actual = ops.attention(q, cache.keys, cache.values, places, scale=scale)
    expected = reference.attention(q, cache.keys, cache.values, places, scale=scale)
    assert torch.allclose(actual, expected, rtol=0, atol=5e-6)


@each_pool
def test_attention_survives_scores_of_any_size(dtype: torch.dtype, variant: str) -> None:
    cache = make_cache(dtype)
    places, q = cache.at([0, 1], [30, 39]), queries(2, 4, 16) * 1e4
    actual = ops.attention(q, cache.keys, cache.values, places, scale=1.0)
    expected = reference.attention(q, cache.keys, cache.values, places, scale=1.0)
    assert torch.allclose(actual, expected, rtol=0, atol=1e-2)


def test_attention_to_one_position_is_its_value(variant: str) -> None:
    cache = make_cache(torch.float32)
    out = ops.attention(queries(1, 4, 16), cache.keys, cache.values, cache.at([1], [0]), scale=1.0)
    assert torch.equal(out[0], cache.values[cache.page_table[1, 0], 0].repeat_interleave(2, dim=0))


@each_pool
def test_attention_does_not_see_what_comes_later(dtype: torch.dtype, variant: str) -> None:
    cache = make_cache(dtype)
    places, q = cache.at([0], [19]), queries(1, 4, 16)
    before = ops.attention(q, cache.keys, cache.values, places, scale=0.25)
    page, offset = int(cache.page_table[0, 20 // 8]), 20 % 8
    cache.keys[page, offset:] = float("nan")
    cache.values[page, offset:] = float("inf")
    after = ops.attention(q, cache.keys, cache.values, places, scale=0.25)
    assert torch.equal(before, after)


@each_pool
@pytest.mark.parametrize("chunks", [(1, 39), (20, 20), (13, 13, 14), (1,) * 40])
def test_attention_has_the_same_bits_in_any_chunks(
    chunks: tuple[int, ...], dtype: torch.dtype, variant: str
) -> None:
    cache, q = make_cache(dtype), queries(40, 4, 16)
    args = (cache.keys, cache.values)
    whole = ops.attention(q, *args, cache.at([1] * 40, list(range(40))), scale=0.25)
    parts, start = [], 0
    for count in chunks:
        places = cache.at([1] * count, list(range(start, start + count)))
        parts.append(ops.attention(q[start : start + count], *args, places, scale=0.25))
        start += count
    assert torch.equal(torch.cat(parts), whole)


def test_attention_over_a_poisoned_key_is_nan_and_ends(variant: str) -> None:
    cache = make_cache(torch.float32)
    cache.keys[cache.page_table[0, 0], 2] = float("nan")
    out = ops.attention(
        queries(2, 4, 16), cache.keys, cache.values, cache.at([0, 1], [9, 9]), scale=1.0
    )
    assert bool(out[0].isnan().all())
    assert bool(out[1].isfinite().all())


def test_attention_of_no_tokens_is_empty(variant: str) -> None:
    cache = make_cache(torch.float32)
    out = ops.attention(queries(0, 4, 16), cache.keys, cache.values, cache.at([], []), scale=1.0)
    assert out.shape == (0, 4, 16)


@each_pool
def test_store_kv_writes_its_slots_and_no_others(dtype: torch.dtype, variant: str) -> None:
    pool = torch.zeros(4, 8, 2, 16, dtype=dtype)
    expected = pool.clone()
    source = torch.randn(3, 2, 16, generator=torch.Generator().manual_seed(5))
    slots = torch.tensor([31, 0, 9])
    ops.store_kv(source, pool, slots)
    reference.store_kv(source, expected, slots)
    assert torch.equal(pool, expected)


def test_store_kv_rounds_to_half_as_torch_does(variant: str) -> None:
    random = torch.Generator().manual_seed(6)
    bits = torch.randint(-(2**31), 2**31, (4096, 1, 8), generator=random).int()
    source = bits.view(torch.float32).clone()
    source[0, 0] = torch.tensor(
        [0.0, -0.0, 65504.0, 65519.9, 65520.0, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25]
    )
    source[1, 0] = torch.tensor([1 + 2.0**-11, 1 + 3 * 2.0**-11, -1e9, 1e-9, 6.1e-5, 6e-5, 1, 2])
    pool = torch.zeros(4096, 1, 1, 8, dtype=torch.float16)
    ops.store_kv(source, pool, torch.arange(4096))
    expected = source.half()
    same = pool.view(4096, 1, 8).view(torch.int16) == expected.view(torch.int16)
    assert bool((same | (source.isnan() & pool.view(4096, 1, 8).isnan())).all())
