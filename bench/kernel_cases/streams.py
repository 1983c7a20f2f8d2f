"""Gates over streams, at the sizes of a model with 2,560 dimensions and four streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from kernel_cases.case import Case, in_place, plain

from engine.kernels import ops, reference

STREAMS, HIDDEN = 4, 2560
TOKENS = (1, 512)


def _normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def scaled_silu() -> Iterator[Case]:
    """The bottleneck of a hyper-connection."""
    for tokens in TOKENS:
        x = _normal(tokens, 320)
        yield plain(
            "scaled_silu", f"{tokens} tokens", lambda x=x: ops.scaled_silu(x, 0.25),  # type: ignore[misc]
            lambda x=x: reference.scaled_silu(x, 0.25), 8 * x.numel(),  # type: ignore[misc]
        )  # fmt: skip


def sigmoid_gate() -> Iterator[Case]:
    """The gate of an attention layer with 24 heads of 256."""
    for tokens in TOKENS:
        x, gate = _normal(tokens, 6144), _normal(tokens, 6144, seed=2)
        yield in_place(
            "sigmoid_gate", f"{tokens} tokens", x, lambda x, gate=gate: ops.sigmoid_gate(x, gate),  # type: ignore[misc]
            lambda x, gate=gate: reference.sigmoid_gate(x, gate), 12 * x.numel(),  # type: ignore[misc]
        )  # fmt: skip


def gated_mean() -> Iterator[Case]:
    """From four streams to one input."""
    for tokens in TOKENS:
        x, gates = _normal(tokens, STREAMS, HIDDEN), _normal(tokens, STREAMS * HIDDEN, seed=2)
        yield plain(
            "gated_mean", f"{tokens} tokens", lambda x=x, g=gates: ops.gated_mean(x, g),  # type: ignore[misc]
            lambda x=x, g=gates: reference.gated_mean(x, g), 9 * x.numel(),  # type: ignore[misc]
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
    scaled_silu, sigmoid_gate, gated_mean, gated_add, ngram_gates,
)  # fmt: skip
