"""Gates over streams, at the sizes of a model with 2,560 dimensions and four streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from kernel_cases.case import TOLERANCE, Case, in_place, plain

from engine.gguf.types import GGMLType
from engine.kernels import ops, reference
from engine.kernels.ops import Activations
from helpers.weights import random_matrix

STREAMS, HIDDEN = 4, 2560
TOKENS = (1, 512)


def _normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def mix_streams() -> Iterator[Case]:
    """The way into a sublayer, with a bottleneck of 320."""
    width = STREAMS * HIDDEN
    down = random_matrix(GGMLType.Q5_K, 320, width, seed=1)
    up = random_matrix(GGMLType.Q5_1, width, 320, seed=2)
    inject, norm = random_matrix(GGMLType.F32, STREAMS, width, seed=3), _normal(STREAMS, HIDDEN)
    for tokens in TOKENS:
        h = _normal(tokens, STREAMS, HIDDEN)

        def mix(mix: Callable[..., tuple[torch.Tensor, object]], rows: int, h=h) -> torch.Tensor:  # type: ignore[no-untyped-def]
            return mix(h[:rows], norm, 1e-6, down, up, inject, Activations.INT16)[0]

        yield Case(
            op="mix_streams",
            name=f"{tokens} tokens",
            run=lambda mix=mix, tokens=tokens: mix(ops.mix_streams, tokens),  # type: ignore[misc]
            actual=lambda mix=mix: mix(ops.mix_streams, 1),  # type: ignore[misc]
            expected=lambda mix=mix: mix(reference.mix_streams, 1),  # type: ignore[misc]
            num_bytes=down.num_bytes + up.num_bytes + inject.num_bytes + 5 * h.numel(),
            operations=2 * tokens * width * (2 * 320 + STREAMS),
            tolerance=TOLERANCE[Activations.INT16],
        )


def gated_norm() -> Iterator[Case]:
    """The gate of a Gated DeltaNet with 48 heads of 128."""
    for tokens in TOKENS:
        x, weight, gate = _normal(tokens, 48, 128), _normal(128), _normal(tokens, 6144, seed=2)
        yield plain(
            "gated_norm", f"{tokens} tokens",
            lambda x=x, w=weight, g=gate: ops.gated_norm(x, w, 1e-6, g),  # type: ignore[misc]
            lambda x=x, w=weight, g=gate: reference.gated_norm(x, w, 1e-6, g), 12 * x.numel(),  # type: ignore[misc]
        )  # fmt: skip


def sigmoid_gate() -> Iterator[Case]:
    """The gate of an attention layer with 24 heads of 256."""
    for tokens in TOKENS:
        x, gate = _normal(tokens, 6144), _normal(tokens, 6144, seed=2)
        yield in_place(
            "sigmoid_gate", f"{tokens} tokens", x, lambda x, gate=gate: ops.sigmoid_gate(x, gate),  # type: ignore[misc]
            lambda x, gate=gate: reference.sigmoid_gate(x, gate), 12 * x.numel(),  # type: ignore[misc]
        )  # fmt: skip


def gated_add() -> Iterator[Case]:
    """From one output to four streams."""
    for tokens in TOKENS:
        y, logits = _normal(tokens, HIDDEN), _normal(tokens, STREAMS, seed=2)

        def add(add: Callable[..., None], acc: torch.Tensor, y=y, logits=logits) -> None:  # type: ignore[no-untyped-def]
            add(acc, y, logits, scale=0.25, gain=2.0)

        acc = _normal(tokens, STREAMS, HIDDEN, seed=3)
        yield in_place(
            "gated_add", f"{tokens} tokens", acc, lambda acc, add=add: add(ops.gated_add, acc),  # type: ignore[misc]
            lambda acc, add=add: add(reference.gated_add, acc), 9 * acc.numel(),  # type: ignore[misc]
        )  # fmt: skip


def ngram_gates() -> Iterator[Case]:
    """How much of the n-gram embedding each stream takes."""
    for tokens in TOKENS:
        k, q = _normal(tokens, STREAMS, HIDDEN), _normal(tokens, STREAMS, HIDDEN, seed=2)
        yield plain(
            "ngram_gates", f"{tokens} tokens", lambda k=k, q=q: ops.ngram_gates(k, q),  # type: ignore[misc]
            lambda k=k, q=q: reference.ngram_gates(k, q), 8 * k.numel(),  # type: ignore[misc]
        )  # fmt: skip


CASES: tuple[Callable[[], Iterator[Case]], ...] = (
    mix_streams, gated_norm, sigmoid_gate, gated_add, ngram_gates,
)  # fmt: skip
