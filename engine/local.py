"""Drives an engine in this process: prompts in, tokens out, without any service.

Used by `lamina generate`, `logits` and `bench`, and by tests. Several prompts run together: a step
takes the decode tokens of all running sequences and fills up with prefill chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.api import (
    Engine,
    SampledToken,
    Sampling,
    SequenceId,
    SequenceStart,
    StepEntry,
    StepRequest,
    StepStats,
)
from engine.errors import PromptError
from engine.kv.pages import PageAllocator
from engine.step import ModelEngine


@dataclass(slots=True)
class Run:
    """One prompt on its way. `tokens` holds prompt and output; `computed` of them are computed."""

    index: int
    tokens: list[int]
    num_prompt_tokens: int
    tokens_max: int  # prompt and output together; it holds pages for as many
    sampling: Sampling
    computed: int = 0
    pages: list[int] = field(default_factory=list)
    done: bool = False  # set by the caller; its pages are free from the next step on

    @property
    def id(self) -> SequenceId:
        return SequenceId(self.index)

    @property
    def num_output(self) -> int:
        return len(self.tokens) - self.num_prompt_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The next token of prompt number `index`; `finish` is "stop" or "length" on its last one."""

    index: int
    token: SampledToken
    finish: str | None


def generate(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    max_tokens: int,
    stop_tokens: frozenset[int] = frozenset(),
    chunk_tokens: int = 0,
) -> Iterator[Generated]:
    """Generate for all prompts together. `chunk_tokens` bounds a prefill chunk; 0: the step's size.

    Raises PromptError for a prompt the model cannot take.
    """
    for prompt in prompts:
        check_prompt(engine, prompt, max_tokens)
    driver = Driver(engine, chunk_tokens)
    runs = [driver.add(prompt, sampling, max_tokens) for prompt in prompts]
    try:
        while not all(run.done for run in runs):
            driver.step()
            for run, token in driver.sampled:
                finish = _finish(run, token, max_tokens, stop_tokens)
                run.done = finish is not None
                yield Generated(index=run.index, token=token, finish=finish)
    finally:
        engine.reset()


def _finish(
    run: Run, token: SampledToken, max_tokens: int, stop_tokens: frozenset[int]
) -> str | None:
    if token.token in stop_tokens:
        return "stop"
    return "length" if run.num_output >= max_tokens else None


def all_logits(
    engine: ModelEngine, prompt: Sequence[int], chunk_tokens: int = 0
) -> NDArray[np.float32]:
    """(tokens, vocab): logits at every position of one prompt."""
    check_prompt(engine, prompt, 0)
    facts = engine.facts
    chunk = chunk_tokens or facts.step_tokens_max
    pages = PageAllocator(facts.num_pages).take(-(-len(prompt) // facts.page_tokens))
    start = SequenceStart(
        sequence=SequenceId(0), sampling=Sampling(temperature=0), num_prompt_tokens=len(prompt)
    )
    engine.step(StepRequest(step=0, starts=(start,)))
    try:
        parts = []
        for at in range(0, len(prompt), chunk):
            entry = StepEntry(
                sequence=SequenceId(0),
                tokens=tuple(prompt[at : at + chunk]),
                position=at,
                new_pages=pages if at == 0 else (),
                sample=False,
            )
            parts.append(engine.forward_logits((entry,)))
        return np.concatenate(parts)
    finally:
        engine.reset()


def check_prompt(engine: Engine, prompt: Sequence[int], max_tokens: int) -> None:
    """Raise PromptError if the model cannot take this prompt and answer it."""
    facts = engine.facts
    if not prompt:
        raise PromptError("the prompt is empty")
    if not 0 <= min(prompt) <= max(prompt) < facts.vocab_size:
        worst = max(prompt, key=lambda token: abs(token - facts.vocab_size // 2))
        raise PromptError(f"token {worst} is outside the vocabulary of {facts.vocab_size}")
    if len(prompt) + max_tokens > facts.context_tokens_max:
        raise PromptError(
            f"{len(prompt)} prompt tokens and {max_tokens} to generate exceed the context of "
            f"{facts.context_tokens_max}"
        )


class Driver:
    """Composes steps for runs; starts a run when there are pages for all it may become."""

    def __init__(self, engine: Engine, chunk_tokens: int = 0) -> None:
        self._engine = engine
        self._facts = engine.facts
        self._chunk = chunk_tokens or self._facts.step_tokens_max
        self._allocator = PageAllocator(self._facts.num_pages)
        self._runs: list[Run] = []
        self._open: dict[int, Run] = {}
        self._steps = 0
        self.sampled: list[tuple[Run, SampledToken]] = []  # of the last step

    def add(self, prompt: Sequence[int], sampling: Sampling, max_tokens: int) -> Run:
        """A new run, which `check_prompt` found possible; it starts with a step that has room."""
        run = Run(
            index=len(self._runs),
            tokens=list(prompt),
            num_prompt_tokens=len(prompt),
            tokens_max=len(prompt) + max_tokens,
            sampling=sampling,
        )
        self._runs.append(run)
        return run

    def step(self) -> StepStats:
        """One step over what fits; sampled tokens are appended to their runs."""
        releases = self._release_finished()
        starts, entries = [], []
        budget = self._facts.step_tokens_max
        active = [run for run in self._runs if not run.done]
        for run in sorted(active, key=lambda run: run.computed == 0):  # those that began first
            if budget == 0 or (run.index not in self._open and not self._admit(run)):
                continue
            if run.computed == 0:
                start = SequenceStart(
                    sequence=run.id, sampling=run.sampling, num_prompt_tokens=run.num_prompt_tokens
                )
                starts.append(start)
            entry = self._entry(run, budget)
            budget -= len(entry.tokens)
            run.computed += len(entry.tokens)
            entries.append(entry)
        self._steps += 1
        request = StepRequest(
            step=self._steps, releases=releases, starts=tuple(starts), entries=tuple(entries)
        )
        result = self._engine.step(request)
        self.sampled = [(self._open[token.sequence], token) for token in result.sampled]
        for run, token in self.sampled:
            run.tokens.append(token.token)
        return result.stats

    def _admit(self, run: Run) -> bool:
        if len(self._open) >= self._facts.sequences_max:
            return False
        promised = sum(self._pages_for(other.tokens_max) for other in self._open.values())
        if promised + self._pages_for(run.tokens_max) > self._facts.num_pages:
            return False
        self._open[run.index] = run
        return True

    def _entry(self, run: Run, budget: int) -> StepEntry:
        end = min(len(run.tokens), run.computed + min(self._chunk, budget))
        needed = self._pages_for(end) - len(run.pages)
        new_pages = self._allocator.take(needed) if needed > 0 else ()
        run.pages.extend(new_pages)
        return StepEntry(
            sequence=run.id,
            tokens=tuple(run.tokens[run.computed : end]),
            position=run.computed,
            new_pages=new_pages,
            sample=end == len(run.tokens),
        )

    def _release_finished(self) -> tuple[SequenceId, ...]:
        finished = [run for run in self._open.values() if run.done]
        for run in finished:
            self._allocator.release(run.pages)
            del self._open[run.index]
        return tuple(run.id for run in finished)

    def _pages_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._facts.page_tokens)
