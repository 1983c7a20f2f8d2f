"""An engine without a model: tokens that can be computed by hand, and the rules enforced strictly.

The next token of a sequence is a hash of all its tokens and its seed. Batches, chunks, preemption
and restarts cannot change it, so a test that compares streams finds any token that was lost,
repeated or mixed up on the way. What the real engine would refuse is refused here too, and pages
are really written: a page shared by mistake gives wrong tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.api import (
    EngineFacts,
    SampledToken,
    SequenceId,
    SequenceStart,
    StepEntry,
    StepRequest,
    StepResult,
    StepStats,
)
from engine.errors import StepError

MULTIPLIER, MODULUS = 1_000_003, (1 << 61) - 1


def next_token(tokens: Sequence[int], seed: int, vocab_size: int) -> int:
    """The token after `tokens`, whatever was done to compute it."""
    value = seed + 1
    for token in tokens:
        value = (value * MULTIPLIER + token + 1) % MODULUS
    return value % vocab_size


@dataclass(slots=True)
class _Open:
    start: SequenceStart
    pages: list[int] = field(default_factory=list)
    num_tokens: int = 0


class FakeEngine:
    """See the module. `before_step` is called first in every step: to delay it, or to raise."""

    def __init__(
        self,
        *,
        vocab_size: int = 1000,
        context_tokens_max: int = 4096,
        page_tokens: int = 16,
        num_pages: int = 1024,
        sequences_max: int = 64,
        step_tokens_max: int = 512,
        before_step: Callable[[StepRequest], None] | None = None,
    ) -> None:
        self._facts = EngineFacts(
            model_name="fake",
            architecture="fake",
            vocab_size=vocab_size,
            context_tokens_max=min(context_tokens_max, num_pages * page_tokens),
            page_tokens=page_tokens,
            num_pages=num_pages,
            sequences_max=sequences_max,
            step_tokens_max=step_tokens_max,
            weight_bytes=0,
            kv_bytes_per_token=8,
        )
        self._before_step = before_step
        self._pool = [[-1] * page_tokens for _ in range(num_pages)]
        self._open: dict[SequenceId, _Open] = {}

    @property
    def facts(self) -> EngineFacts:
        return self._facts

    def step(self, request: StepRequest) -> StepResult:
        """Run one step. Raises StepError if the request breaks a rule."""
        began = time.perf_counter()
        if self._before_step is not None:
            self._before_step(request)
        for released in request.releases:
            if self._open.pop(released, None) is None:
                raise StepError(f"sequence {released} is released but not open")
        for start in request.starts:
            if start.sequence in self._open:
                raise StepError(f"sequence {start.sequence} is started but open already")
            self._open[start.sequence] = _Open(start)
        if len(self._open) > self._facts.sequences_max:
            raise StepError(f"{len(self._open)} sequences are open")
        if sum(len(entry.tokens) for entry in request.entries) > self._facts.step_tokens_max:
            raise StepError("too many tokens in a step")
        if len({entry.sequence for entry in request.entries}) != len(request.entries):
            raise StepError("a sequence has two entries")
        sampled = [self._run(entry) for entry in request.entries]
        lengths = [len(entry.tokens) for entry in request.entries]
        return StepResult(
            step=request.step,
            sampled=tuple(token for token in sampled if token is not None),
            stats=StepStats(
                step_seconds=time.perf_counter() - began,
                prefill_tokens=sum(n for n in lengths if n > 1),
                decode_tokens=sum(n for n in lengths if n == 1),
            ),
        )

    def reset(self) -> None:
        """Release every sequence."""
        self._open.clear()

    def close(self) -> None:
        """Nothing to give back."""

    def _run(self, entry: StepEntry) -> SampledToken | None:
        state = self._open.get(entry.sequence)
        if state is None:
            raise StepError(f"sequence {entry.sequence} is not open")
        self._check(entry, state)
        state.pages.extend(entry.new_pages)
        for offset, token in enumerate(entry.tokens):
            page, place = divmod(state.num_tokens + offset, self._facts.page_tokens)
            self._pool[state.pages[page]][place] = token
        state.num_tokens += len(entry.tokens)
        if not entry.sample:
            return None
        seed = state.start.sampling.seed
        token = next_token(self._read(state), seed, self._facts.vocab_size)
        wanted = state.start.sampling.logprobs
        top = ((token, -0.5),)[: wanted or 0]
        logprob = None if wanted is None else -0.5
        return SampledToken(sequence=entry.sequence, token=token, logprob=logprob, top=top)

    def _read(self, state: _Open) -> list[int]:
        stored = [token for page in state.pages for token in self._pool[page]]
        return stored[: state.num_tokens]

    def _check(self, entry: StepEntry, state: _Open) -> None:
        owned = {page for other in self._open.values() for page in other.pages}
        end = entry.position + len(entry.tokens)
        pages = len(state.pages) + len(entry.new_pages)
        problems = {
            "no tokens": not entry.tokens,
            "not where it stands": entry.position != state.num_tokens,
            "pages in use": not owned.isdisjoint(entry.new_pages),
            "no such page": any(not 0 <= page < self._facts.num_pages for page in entry.new_pages),
            "too few pages": end > pages * self._facts.page_tokens,
            "beyond the context": end > self._facts.context_tokens_max,
            "no such token": any(not 0 <= token < self._facts.vocab_size for token in entry.tokens),
        }
        for problem, present in problems.items():
            if present:
                raise StepError(f"sequence {entry.sequence}: {problem}")
