"""Linear layers, experts, attention, norms and what moves rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from kernel_cases.case import BUFFER_BYTES, TOLERANCE, Case, plain

from engine.gguf.types import GGMLType
from engine.kernels import ops, reference
from engine.kernels.ops import Activations, PagedTokens, QuantMatrix, RopeStyle, Selection
from helpers.weights import KERNEL_TYPES, activations, random_matrix

ROWS, COLS = 2048, 2048  # a trunk matrix of a model with 30 billion weights
HIDDEN, FF, EXPERTS, USED = 2048, 768, 16, 8


def linear() -> Iterator[Case]:
    """Every type, both activations: one token (bound by memory) and 128 (bound by arithmetic)."""
    for type in KERNEL_TYPES:
        w = random_matrix(type, ROWS, COLS)
        head = w.row_range(0, ROWS // 64)
        for mode in Activations:
            for tokens in (1, 128):
                yield _linear(w, head, activations(tokens, COLS), mode)


def _linear(w: QuantMatrix, head: QuantMatrix, x: torch.Tensor, mode: Activations) -> Case:
    """One token meets another copy of the matrix in each run, as in a model of many layers."""
    copies = itertools.cycle(_copies(w) if x.shape[0] == 1 else [w])
    return Case(
        op="linear",
        name=f"{w.type.name} {mode.value} {x.shape[0]} tokens",
        run=lambda: ops.linear(x, next(copies), mode),
        actual=lambda: ops.linear(x, head, mode),
        expected=lambda: reference.linear(x, head, mode),
        num_bytes=w.num_bytes + 4 * x.shape[0] * (ROWS + COLS),
        operations=2 * x.shape[0] * ROWS * COLS,
    )


def _copies(w: QuantMatrix) -> list[QuantMatrix]:
    """As many of them as no cache holds together."""
    return [replace(w, data=w.data.copy()) for _ in range(-(-BUFFER_BYTES // w.num_bytes))]


def linears() -> Iterator[Case]:
    """What a Gated DeltaNet makes of its input: 10,240, 6,144 and twice 48 rows."""
    q5, f32 = GGMLType.Q5_K, GGMLType.F32
    sizes = ((q5, 10240), (q5, 6144), (f32, 48), (f32, 48))
    weights = [random_matrix(type, rows, 2560, seed=rows) for type, rows in sizes]
    heads = [w.row_range(0, 48) for w in weights]
    for tokens in (1, 512):
        x = activations(tokens, 2560)

        def joined(
            op: Callable[..., list[torch.Tensor]], ws: list[QuantMatrix], x: torch.Tensor = x
        ) -> torch.Tensor:
            return torch.cat(op(x, ws, Activations.INT16), dim=1)

        yield Case(
            op="linears",
            name=f"{tokens} tokens",
            run=lambda x=x: ops.linears(x, weights, Activations.INT16),  # type: ignore[misc]
            actual=lambda joined=joined: joined(ops.linears, heads),  # type: ignore[misc]
            expected=lambda joined=joined: joined(reference.linears, heads),  # type: ignore[misc]
            num_bytes=sum(w.num_bytes for w in weights) + 4 * tokens * (2560 + 16480),
            operations=2 * tokens * 2560 * 16480,
            tolerance=TOLERANCE[Activations.INT16],
        )


def gated_ffn() -> Iterator[Case]:
    """A shared expert of 640."""
    gate, up = (random_matrix(GGMLType.Q8_0, 640, 2560, seed=seed) for seed in (1, 2))
    down, share = random_matrix(GGMLType.Q8_0, 2560, 640), random_matrix(GGMLType.F32, 1, 2560)
    for tokens in (1, 512):
        x = activations(tokens, 2560) * 0.1

        def ffn(op: Callable[..., None], x: torch.Tensor) -> torch.Tensor:
            y = torch.zeros_like(x)
            op(y, x, gate, up, down, share, Activations.INT16)
            return y

        yield Case(
            op="gated_ffn",
            name=f"{tokens} tokens",
            run=lambda x=x, ffn=ffn: ffn(ops.gated_ffn, x),  # type: ignore[misc]
            actual=lambda x=x, ffn=ffn: ffn(ops.gated_ffn, x[:1]),  # type: ignore[misc]
            expected=lambda x=x, ffn=ffn: ffn(reference.gated_ffn, x[:1]),  # type: ignore[misc]
            num_bytes=gate.num_bytes + up.num_bytes + down.num_bytes + 12 * x.numel(),
            operations=2 * tokens * 2560 * (3 * 640 + 1),
            tolerance=TOLERANCE[Activations.INT16],
        )


def attention_inputs() -> Iterator[Case]:
    """24 heads and 2 key heads of 256, of which 64 dimensions rotate."""
    inv_freq = 1e7 ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    for tokens in (1, 512):
        both = activations(tokens, 24 * 512).view(tokens, 24, 2, 256)
        k, v = (activations(tokens, 512, seed=seed).view(tokens, 2, 256) for seed in (2, 3))
        weights = activations(2, 256, seed=4)
        places = torch.arange(tokens, dtype=torch.int32), torch.arange(tokens)
        pools = torch.zeros(2, 8, 64, 2, 256, dtype=torch.float16)
        args = (both, k, v, *weights, 1e-6, inv_freq, *places, *pools)
        yield plain(
            "attention_inputs", f"{tokens} tokens", lambda a=args: ops.attention_inputs(*a)[0],  # type: ignore[misc]
            lambda a=args: reference.attention_inputs(*a)[0],  # type: ignore[misc]
            8 * both.numel() + 6 * (k.numel() + v.numel()),
        )  # fmt: skip


def expert_ffn() -> Iterator[Case]:
    """A layer's experts for one token and for a chunk of a prompt."""
    for type in (GGMLType.Q4_K, GGMLType.Q8_0, GGMLType.IQ2_XXS, GGMLType.MXFP4):
        gate = random_matrix(type, FF, HIDDEN, experts=EXPERTS, seed=1)
        up = random_matrix(type, FF, HIDDEN, experts=EXPERTS, seed=2)
        down = random_matrix(type, HIDDEN, FF, experts=EXPERTS, seed=3)
        for mode in Activations:
            for tokens in (1, 64):
                yield _expert_ffn((gate, up, down), tokens, mode)


def _expert_ffn(
    layer: tuple[QuantMatrix, QuantMatrix, QuantMatrix], tokens: int, mode: Activations
) -> Case:
    generator = torch.Generator().manual_seed(1)
    order = torch.stack([torch.randperm(EXPERTS, generator=generator) for _ in range(tokens)])
    ids, weights = order[:, :USED].int().contiguous(), torch.full((tokens, USED), 1 / USED)
    x = activations(tokens, HIDDEN) * 0.1
    one = (x[:1], *layer, ids[:1], weights[:1], mode)
    used = len(set(ids.flatten().tolist()))
    return Case(
        op="expert_ffn",
        name=f"{layer[0].type.name} {mode.value} {tokens} tokens",
        run=lambda: ops.expert_ffn(x, *layer, ids, weights, mode),
        actual=lambda: ops.expert_ffn(*one),
        expected=lambda: reference.expert_ffn(*one),
        num_bytes=sum(w.num_bytes for w in layer) // EXPERTS * used + 8 * tokens * HIDDEN,
        operations=2 * 3 * tokens * USED * HIDDEN * FF,
        tolerance=TOLERANCE[mode],
    )


def attention() -> Iterator[Case]:
    """Decoding at 4,096 positions, also to 1,024 of them, and 64 tokens behind 1,024."""
    for dtype, name in ((torch.float32, "f32"), (torch.float16, "f16")):
        yield _attention(dtype, name, 1, 4096)
        yield _attention(dtype, f"selected {name}", 1, 4096, every=4)
        yield _attention(dtype, name, 64, 1024)


def _attention(
    dtype: torch.dtype, name: str, tokens: int, positions: int, *, every: int = 1
) -> Case:
    """With `every`, attention to one block of four positions in that many."""
    heads, kv_heads, head_dim, page_tokens = 32, 4, 128, 16
    generator = torch.Generator().manual_seed(1)
    pages = -(-(positions + tokens) // page_tokens)
    shape = (pages, page_tokens, kv_heads, head_dim)
    keys = torch.randn(shape, generator=generator).to(dtype)
    values = torch.randn(shape, generator=generator).to(dtype)
    q = torch.randn(tokens, heads, head_dim, generator=generator)
    places = PagedTokens(
        page_table=torch.randperm(pages, generator=generator).view(1, pages).int(),
        sequence=torch.zeros(tokens, dtype=torch.int32),
        positions=torch.arange(positions - 1, positions - 1 + tokens, dtype=torch.int32),
    )
    args, scale = (q, keys, values, places), head_dim**-0.5
    blocks = torch.arange(0, positions // 4, every, dtype=torch.int32).repeat(tokens, 1)
    selection = Selection(blocks=blocks, ratio=4) if every > 1 else None
    seen = sum(range(positions, positions + tokens)) // every
    return Case(
        op="attention",
        name=f"{name} {tokens} tokens at {positions}",
        run=lambda: ops.attention(*args, scale=scale, selection=selection),
        actual=lambda: ops.attention(*args, scale=scale, selection=selection),
        expected=lambda: reference.attention(*args, scale=scale, selection=selection),
        num_bytes=2 * keys.element_size() * kv_heads * head_dim * (positions + tokens - 1) // every,
        operations=2 * 2 * heads * head_dim * seen,
    )


def store_kv() -> Iterator[Case]:
    """A chunk of 512 tokens into either kind of pool."""
    for dtype, name in ((torch.float32, "f32"), (torch.float16, "f16")):
        source, pool = activations(512, 512).view(512, 4, 128), torch.zeros(64, 16, 4, 128)
        yield _store_kv(source, pool.to(dtype), name)


def _store_kv(source: torch.Tensor, pool: torch.Tensor, name: str) -> Case:
    slots = torch.randperm(1024, generator=torch.Generator().manual_seed(1))[:512]

    def stored(store: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]) -> torch.Tensor:
        copy = pool.clone()
        store(source, copy, slots)
        return copy.float()

    return Case(
        op="store_kv",
        name=f"{name} 512 tokens",
        run=lambda: ops.store_kv(source, pool, slots),
        actual=lambda: stored(ops.store_kv),
        expected=lambda: stored(reference.store_kv),
        num_bytes=source.numel() * (4 + pool.element_size()),
        operations=0,
    )


def dequantize() -> Iterator[Case]:
    """Every type to float32."""
    for type in KERNEL_TYPES:
        w = random_matrix(type, 512, COLS)
        yield plain(
            "dequantize", type.name, lambda w=w: ops.dequantize(w),  # type: ignore[misc]
            lambda w=w: reference.dequantize(w), w.num_bytes + 4 * 512 * COLS,  # type: ignore[misc]
        )  # fmt: skip


def embedding() -> Iterator[Case]:
    """Rows of a vocabulary."""
    w = random_matrix(GGMLType.Q8_0, 8192, COLS)
    ids = torch.randint(0, 8192, (512,), generator=torch.Generator().manual_seed(1))
    row_bytes = w.num_bytes // w.rows
    yield plain(
        "embedding", "Q8_0 512 tokens", lambda: ops.embedding(ids, w),
        lambda: reference.embedding(ids, w), 512 * (row_bytes + 4 * COLS),
    )  # fmt: skip


def rms_norm() -> Iterator[Case]:
    """A chunk of 512 tokens."""
    x, weight = activations(512, HIDDEN), activations(1, HIDDEN, seed=2)[0]
    yield plain(
        "rms_norm", "512 tokens", lambda: ops.rms_norm(x, weight, 1e-6),
        lambda: reference.rms_norm(x, weight, 1e-6), 8 * x.numel(),
    )  # fmt: skip


def swiglu() -> Iterator[Case]:
    """A chunk of 512 tokens."""
    gate, up = activations(512, FF), activations(512, FF, seed=2)
    yield plain(
        "swiglu", "512 tokens", lambda: ops.swiglu(gate, up),
        lambda: reference.swiglu(gate, up), 12 * gate.numel(),
    )  # fmt: skip


def router_topk() -> Iterator[Case]:
    """512 tokens choose 8 of 128 experts."""
    logits = activations(512, 128)
    yield plain(
        "router_topk", "512 tokens, 8 of 128",
        lambda: ops.router_topk(logits, 8, normalise=True)[1],
        lambda: reference.router_topk(logits, 8, normalise=True)[1], 4 * logits.numel(),
    )  # fmt: skip


def rope() -> Iterator[Case]:
    """Queries of 512 tokens, both styles."""
    inv_freq = 1e6 ** -(torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    positions = torch.arange(512, dtype=torch.int32)
    x = activations(512, 4096).view(512, 32, 128)
    for style in RopeStyle:
        yield _rope(x, positions, inv_freq, style)


def _rope(
    x: torch.Tensor, positions: torch.Tensor, inv_freq: torch.Tensor, style: RopeStyle
) -> Case:
    def turned(rope: Callable[..., None]) -> torch.Tensor:
        copy = x.clone()
        rope(copy, positions, inv_freq, style)
        return copy

    scratch = x.clone()
    return Case(
        op="rope",
        name=f"{style.value} 512 tokens",
        run=lambda: ops.rope(scratch, positions, inv_freq, style),
        actual=lambda: turned(ops.rope),
        expected=lambda: turned(reference.rope),
        num_bytes=8 * x.numel(),
        operations=0,
    )


CASES: tuple[Callable[[], Iterator[Case]], ...] = (
    linear, linears, expert_ffn, gated_ffn, attention_inputs, attention, store_kv, dequantize,
    embedding, rms_norm, swiglu, router_topk, rope,
)  # fmt: skip
