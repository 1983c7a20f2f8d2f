"""A token's result has the same bits whatever else is in the call, on any number of threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from engine.gguf.types import LAYOUTS, GGMLType
from engine.kernels import ops
from engine.kernels.ops import Activations, PagedTokens
from helpers.weights import KERNEL_TYPES, QUANTISED_TYPES, activations, random_matrix

TOKENS = 67  # more than the 64 of a float tile, and no multiple of anything
MANY = 300  # more than the 256 of a tile of rounded tokens
each_rounding = pytest.mark.parametrize(
    "mode", [Activations.INT8, Activations.INT16], ids=lambda mode: mode.value
)
each_mode = pytest.mark.parametrize("mode", Activations, ids=lambda mode: mode.value)
Rows = list[int]


def assert_invariant(compute: Callable[[Rows], torch.Tensor]) -> None:
    """`compute(rows)` gives the results of these tokens when they are alone in the call."""
    whole = compute(list(range(TOKENS)))
    for rows in ([0], [66], [5, 3], [1, 2, 3], list(range(40, 57)), list(range(66, 1, -1))):
        assert torch.equal(compute(rows), whole[rows]), rows
    for threads in (1, 3, 4):
        ops.set_num_threads(threads)
        assert torch.equal(compute(list(range(TOKENS))), whole), threads


@each_mode
@pytest.mark.parametrize("type", KERNEL_TYPES, ids=lambda type: type.name)
def test_linear_is_invariant(type: GGMLType, mode: Activations, variant: str) -> None:
    w, x = random_matrix(type, 70, 512), activations(TOKENS, 512)
    assert_invariant(lambda rows: ops.linear(x[rows], w, mode))


@each_rounding
@pytest.mark.parametrize("type", QUANTISED_TYPES, ids=lambda type: type.name)
def test_variants_give_the_same_bits_for_rounded_activations(
    type: GGMLType, mode: Activations
) -> None:
    """A worker with AVX2 and one with AVX512 may share a model."""
    cols = 3 * LAYOUTS[type].elements
    w, x = random_matrix(type, 37, cols), activations(TOKENS, cols)
    results = {}
    for name in ops.variants():
        ops.set_variant(name)
        results[name] = torch.cat([ops.linear(x[:n], w, mode) for n in (1, 2, 5, 17, TOKENS)])
    first = results.pop("portable")
    for name, result in results.items():
        assert torch.equal(result, first), name


@each_rounding
@pytest.mark.parametrize("type", [GGMLType.Q2_K, GGMLType.Q8_0], ids=lambda type: type.name)
def test_a_token_of_hundreds_has_the_bits_it_has_alone(
    type: GGMLType, mode: Activations, variant: str
) -> None:
    w, x = random_matrix(type, 33, 512), activations(MANY, 512)
    whole = ops.linear(x, w, mode)
    for token in (0, 15, 16, 255, 256, 299):
        assert torch.equal(ops.linear(x[token : token + 1], w, mode)[0], whole[token]), token


@each_mode
@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.Q4_K, GGMLType.IQ3_S])
def test_expert_ffn_is_invariant(type: GGMLType, mode: Activations, variant: str) -> None:
    gate = random_matrix(type, 256, 256, experts=5, seed=1)
    down = random_matrix(GGMLType.Q6_K, 256, 256, experts=5, seed=2)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(-1, 5, (TOKENS, 3), generator=generator).int()
    weights = torch.rand(TOKENS, 3, generator=generator)
    x = activations(TOKENS, 256) * 0.1
    assert_invariant(
        lambda rows: ops.expert_ffn(x[rows], gate, gate, down, ids[rows], weights[rows], mode)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["f32", "f16"])
def test_attention_is_invariant(dtype: torch.dtype, variant: str) -> None:
    generator = torch.Generator().manual_seed(1)
    keys = torch.randn(30, 8, 2, 24, generator=generator).to(dtype)
    values = torch.randn(30, 8, 2, 24, generator=generator).to(dtype)
    q = torch.randn(TOKENS, 6, 24, generator=generator)
    table = torch.randperm(30, generator=generator).view(3, 10).int()
    sequence = torch.randint(0, 3, (TOKENS,), generator=generator).int()
    positions = torch.randint(0, 80, (TOKENS,), generator=generator).int()

    def compute(rows: Rows) -> torch.Tensor:
        places = PagedTokens(page_table=table, sequence=sequence[rows], positions=positions[rows])
        return ops.attention(q[rows], keys, values, places, scale=0.2)

    assert_invariant(compute)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["f32", "f16"])
def test_selection_and_attention_to_it_are_invariant(dtype: torch.dtype, variant: str) -> None:
    generator = torch.Generator().manual_seed(1)
    pool = torch.randn(3 * 90, 4, 16, generator=generator).to(dtype)  # 360 blocks per sequence
    keys = torch.randn(3 * 90, 16, 1, 16, generator=generator).to(dtype)
    table = torch.randperm(3 * 90, generator=generator).view(3, 90).int()
    sequence = torch.randint(0, 3, (TOKENS,), generator=generator).sort().values.int()
    positions = torch.randint(0, 1440, (TOKENS,), generator=generator).int()
    q = torch.randn(TOKENS, 3, 16, generator=generator)

    def select(rows: Rows) -> torch.Tensor:
        places = PagedTokens(page_table=table, sequence=sequence[rows], positions=positions[rows])
        return ops.select_blocks(q[rows], pool, places, ratio=4, best=150)

    def attend(rows: Rows) -> torch.Tensor:
        places = PagedTokens(page_table=table, sequence=sequence[rows], positions=positions[rows])
        selection = ops.Selection(blocks=select(rows), ratio=4)
        return ops.attention(q[rows], keys, keys, places, scale=0.2, selection=selection)

    assert_invariant(select)
    assert_invariant(attend)


def test_small_ops_are_invariant(variant: str) -> None:
    x, other = activations(TOKENS, 48), activations(TOKENS, 48, seed=2)
    weight = activations(1, 48, seed=3)[0]
    positions = torch.arange(TOKENS, dtype=torch.int32) * 1000
    inv_freq = torch.logspace(0, -6, 12, dtype=torch.float64)

    def rope(rows: Rows) -> torch.Tensor:
        heads = x[rows].view(-1, 2, 24).clone()
        ops.rope(heads, positions[rows], inv_freq, ops.RopeStyle.NEOX)
        return heads

    assert_invariant(lambda rows: ops.rms_norm(x[rows], weight, 1e-6))
    assert_invariant(lambda rows: ops.swiglu(x[rows], other[rows]))
    assert_invariant(lambda rows: ops.router_topk(x[rows], 4, normalise=True)[0])
    assert_invariant(lambda rows: ops.router_topk(x[rows], 4, normalise=True)[1])
    assert_invariant(rope)


def test_gates_over_streams_are_invariant(variant: str) -> None:
    """Rows of 4 * 13 values: where a token starts among the vectors depends on its company."""
    x = activations(TOKENS, 52).view(TOKENS, 4, 13)
    other = activations(TOKENS, 52, seed=2)
    weight = activations(4, 13, seed=3)

    def gate(rows: Rows) -> torch.Tensor:
        gated = x[rows].flatten(1)
        ops.sigmoid_gate(gated, other[rows])
        return gated

    def add(rows: Rows) -> torch.Tensor:
        acc = x[rows]
        y, logits = other[rows, :13].contiguous(), other[rows, 13:17].contiguous()
        ops.gated_add(acc, y, logits, scale=0.25, gain=2.0)
        return acc

    assert_invariant(lambda rows: ops.rms_norm(x[rows], weight, 1e-6))
    assert_invariant(lambda rows: ops.gated_norm(x[rows], weight[0], 1e-6, other[rows]))
    assert_invariant(lambda rows: ops.ngram_gates(x[rows], other[rows].view(-1, 4, 13)))
    assert_invariant(gate)
    assert_invariant(add)


@each_mode
@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.Q5_K, GGMLType.Q8_0])
def test_ops_of_several_products_are_invariant(
    type: GGMLType, mode: Activations, variant: str
) -> None:
    x, h = activations(TOKENS, 256), activations(TOKENS, 512, seed=2).view(TOKENS, 2, 256)
    gate, up, down = (random_matrix(type, 256, 256, seed=seed) for seed in (1, 2, 3))
    share, norm = random_matrix(type, 1, 256), activations(2, 256, seed=3)
    low, high, inject = (random_matrix(type, *size) for size in ((256, 512), (512, 256), (3, 512)))

    def ffn(rows: Rows) -> torch.Tensor:
        y = x[rows]
        ops.gated_ffn(y, x[rows], gate, up, down, share, mode)
        return y

    def mix(rows: Rows) -> torch.Tensor:
        mixed, logits = ops.mix_streams(h[rows], norm, 1e-6, low, high, inject, mode)
        assert logits is not None
        return torch.cat([mixed, logits], dim=1)

    assert_invariant(lambda rows: torch.cat(ops.linears(x[rows], (gate, share, up), mode), dim=1))
    assert_invariant(ffn)
    assert_invariant(mix)


@each_mode
@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.Q4_K, GGMLType.Q8_0])
def test_an_experts_bytes_may_lie_anywhere(type: GGMLType, mode: Activations, variant: str) -> None:
    w, x = random_matrix(type, 33, 512), activations(3, 512)
    expected = ops.linear(x, w, mode)
    for shift in (1, 2, 8, 24, 31):
        room = torch.zeros(w.num_bytes + shift, dtype=torch.uint8).numpy()
        room[shift:] = w.data
        moved = ops.QuantMatrix(data=room[shift:], type=type, rows=33, cols=512)
        assert torch.equal(ops.linear(x, moved, mode), expected), shift
