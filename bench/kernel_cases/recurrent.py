"""What moves along a sequence, at the sizes of a model with 16 key and 48 value heads of 128."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from kernel_cases.case import Case

from engine.kernels import ops, reference
from engine.kernels.ops import Spans

KEY_HEADS, HEADS, DIM = 16, 48, 128
CHANNELS, TAPS = (2 * KEY_HEADS + HEADS) * DIM, 4
TOKENS = (1, 128)
Op = Callable[..., torch.Tensor]


def _normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _one(tokens: int) -> Spans:
    return Spans(
        offsets=torch.tensor([0, tokens], dtype=torch.int32),
        slots=torch.zeros(1, dtype=torch.int32),
    )


def causal_conv() -> Iterator[Case]:
    """One sequence, a token and a chunk."""
    for tokens in TOKENS:
        x, kernel = _normal(tokens, CHANNELS), _normal(TAPS, CHANNELS, seed=2)

        def conv(op: Op, x: torch.Tensor = x, kernel: torch.Tensor = kernel) -> torch.Tensor:
            return op(x, kernel, torch.zeros(1, TAPS - 1, CHANNELS), _one(len(x)))

        yield _case(
            *("causal_conv", tokens, conv, ops.causal_conv, reference.causal_conv),
            num_bytes=8 * x.numel(),
            operations=2 * TAPS * x.numel(),
        )


def delta_rule() -> Iterator[Case]:
    """One sequence, a token and a chunk; a token is bound by reading and writing the state."""
    for tokens in TOKENS:
        qkv, gates = _normal(tokens, CHANNELS), _normal(tokens, HEADS, seed=2)
        decay = -torch.rand(HEADS, generator=torch.Generator().manual_seed(3))
        state = torch.zeros(1, HEADS, DIM, DIM)

        def rule(
            op: Op,
            qkv: torch.Tensor = qkv,
            gates: torch.Tensor = gates,
            decay: torch.Tensor = decay,
            state: torch.Tensor = state,
        ) -> torch.Tensor:
            inputs = (qkv, gates, gates, decay, decay, state, _one(len(qkv)))
            return op(*inputs, key_heads=KEY_HEADS)

        yield _case(
            *("delta_rule", tokens, rule, ops.delta_rule, reference.delta_rule),
            num_bytes=8 * state.numel(),
            operations=6 * tokens * HEADS * DIM * DIM,
            fresh=state.zero_,
        )


def _case(
    op: str,
    tokens: int,
    run: Callable[[Op], torch.Tensor],
    ours: Op,
    plain: Op,
    *,
    num_bytes: int,
    operations: int,
    fresh: Callable[[], object] = lambda: None,
) -> Case:
    """`fresh` brings the state back to its beginning, so that both sides start alike."""

    def from_the_start(op: Op) -> torch.Tensor:
        fresh()
        return run(op)

    return Case(
        op=op,
        name=f"{tokens} tokens",
        run=lambda: run(ours),
        actual=lambda: from_the_start(ours),
        expected=lambda: from_the_start(plain),
        num_bytes=num_bytes,
        operations=operations if tokens > 1 else 0,
    )


CASES: tuple[Callable[[], Iterator[Case]], ...] = (causal_conv, delta_rule)
