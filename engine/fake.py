"""An engine without a model: tokens that can be computed by hand, and the rules enforced strictly.

The next token of a sequence is a hash of all its tokens, its seed and the number of the output
token. Batches, chunks, preemption and restarts cannot change it, so a test that compares streams
finds any token that was lost, repeated or mixed up on the way, and a restart that forgets where the
prompt ended. What the real engine would refuse is refused here too, and pages are really written: a
page shared by mistake gives wrong tokens.
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
from engine.rules import OpenSequence, check_step

MULTIPLIER, MODULUS = 1_000_003, (1 << 61) - 1
LOGPROB = -0.5  # of every token


def next_token(tokens: Sequence[int], seed: int, vocab_size: int, *, num_prompt_tokens: int) -> int:
    """The token after `tokens`, whatever was done to compute it."""
    output_index = len(tokens) - num_prompt_tokens
    value = seed * MULTIPLIER + output_index + 1
    for token in tokens:
        value = (value * MULTIPLIER + token + 1) % MODULUS
    return value % vocab_size


@dataclass(slots=True)
class _Open:
    start: SequenceStart
    pages: list[int] = field(default_factory=list)
    num_tokens: int = 0

    def seen_by_rules(self) -> OpenSequence:
        return OpenSequence(
            num_prompt_tokens=self.start.num_prompt_tokens,
            num_tokens=self.num_tokens,
            num_pages=len(self.pages),
        )


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
        self._closed = False

    @property
    def facts(self) -> EngineFacts:
        return self._facts

    @property
    def open_sequences(self) -> frozenset[SequenceId]:
        """What a test looks at to see that sequences were released."""
        return frozenset(self._open)

    def step(self, request: StepRequest) -> StepResult:
        """Run one step. Raises StepError, and changes nothing, if the request breaks a rule."""
        began = time.perf_counter()
        assert not self._closed, "a step after close"
        if self._before_step is not None:
            self._before_step(request)
        open_now = {id: state.seen_by_rules() for id, state in self._open.items()}
        owners = {page: id for id, state in self._open.items() for page in state.pages}
        check_step(request, self._facts, open_now, owners)
        for released in request.releases:
            del self._open[released]
        self._open.update((start.sequence, _Open(start)) for start in request.starts)
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
        """Nothing to give back, but nothing may follow."""
        self.reset()
        self._closed = True

    def _run(self, entry: StepEntry) -> SampledToken | None:
        state = self._open[entry.sequence]
        state.pages.extend(entry.new_pages)
        for offset, token in enumerate(entry.tokens):
            page, place = divmod(state.num_tokens + offset, self._facts.page_tokens)
            self._pool[state.pages[page]][place] = token
        state.num_tokens += len(entry.tokens)
        if not entry.sample:
            return None
        stored = [token for page in state.pages for token in self._pool[page]][: state.num_tokens]
        token = next_token(
            stored,
            state.start.sampling.seed,
            self._facts.vocab_size,
            num_prompt_tokens=state.start.num_prompt_tokens,
        )
        wanted = state.start.sampling.logprobs
        return SampledToken(
            sequence=entry.sequence,
            token=token,
            logprob=None if wanted is None else LOGPROB,
            top=((token, LOGPROB),)[: wanted or 0],
        )
