"""What a step may ask for: the rules that every engine holds its callers to.

`check_step` is pure: it looks at a request and at what is open, and raises before anything changes.
Called by `engine.step` and, so that tests meet the same rules, by `engine.fake`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from engine.api import EngineFacts, Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.errors import StepError


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSequence:
    """What the rules need to know of a sequence."""

    num_prompt_tokens: int
    num_tokens: int = 0  # computed
    num_pages: int = 0


def check_step(
    request: StepRequest,
    facts: EngineFacts,
    sequences: Mapping[SequenceId, OpenSequence],
    page_owner: Mapping[int, SequenceId],
) -> None:
    """Raise StepError for everything that could be wrong with a request."""
    for released in request.releases:
        if released not in sequences:
            raise StepError(f"sequence {released} is released but not open")
    if len(set(request.releases)) != len(request.releases):
        raise StepError("a sequence is released twice")
    then = {id: s for id, s in sequences.items() if id not in request.releases}
    started: set[SequenceId] = set()
    for start in request.starts:
        if start.sequence in started:
            raise StepError("a sequence is started twice")
        if start.sequence in then:
            raise StepError(f"sequence {start.sequence} is started but open already")
        _check_start(start, facts)
        started.add(start.sequence)
        then[start.sequence] = OpenSequence(num_prompt_tokens=start.num_prompt_tokens)
    if len(then) > facts.sequences_max:
        raise StepError(f"more than {facts.sequences_max} sequences")
    if len({entry.sequence for entry in request.entries}) != len(request.entries):
        raise StepError("a sequence has two entries")
    num_tokens = sum(len(entry.tokens) for entry in request.entries)
    if num_tokens > facts.step_tokens_max:
        raise StepError(f"a step of {num_tokens} tokens, {facts.step_tokens_max} is the most")
    _check_pages(request, facts, page_owner)
    for entry in request.entries:
        if entry.sequence not in then:
            raise StepError(f"sequence {entry.sequence} is not open")
        _check_entry(entry, facts, then[entry.sequence])


def _check_start(start: SequenceStart, facts: EngineFacts) -> None:
    if start.num_prompt_tokens < 1:
        raise StepError(f"sequence {start.sequence} has no prompt")
    if (name := impossible(start.sampling, facts.vocab_size)) is not None:
        raise StepError(f"sequence {start.sequence}: sampling with an impossible {name}")


def impossible(sampling: Sampling, vocab_size: int) -> str | None:
    """What makes it impossible to sample like this; None if nothing does."""
    numbers = sampling.presence_penalty, sampling.frequency_penalty
    checks = {
        "temperature": not 0 <= sampling.temperature < math.inf,
        "top_k": sampling.top_k < 0,
        "top_p": not 0 <= sampling.top_p <= 1,
        "min_p": not 0 <= sampling.min_p <= 1,
        "repetition_penalty": not 0 < sampling.repetition_penalty < math.inf,
        "presence or frequency penalty": not all(map(math.isfinite, numbers)),
        "seed": not 0 <= sampling.seed < 1 << 64,
        "logprobs": sampling.logprobs is not None and sampling.logprobs < 0,
        "logit_bias": not all(
            0 <= token < vocab_size and math.isfinite(bias) for token, bias in sampling.logit_bias
        ),
    }
    return next((name for name, present in checks.items() if present), None)


def _check_pages(
    request: StepRequest, facts: EngineFacts, page_owner: Mapping[int, SequenceId]
) -> None:
    granted: set[int] = set()
    for entry in request.entries:
        for page in entry.new_pages:
            owner = page_owner.get(page)
            if not 0 <= page < facts.num_pages:
                raise StepError(f"sequence {entry.sequence}: no page {page}")
            if page in granted or (owner is not None and owner not in request.releases):
                raise StepError(f"sequence {entry.sequence}: page {page} is in use")
            granted.add(page)


def _check_entry(entry: StepEntry, facts: EngineFacts, sequence: OpenSequence) -> None:
    name = f"sequence {entry.sequence}"
    computed = sequence.num_tokens
    num_pages = sequence.num_pages + len(entry.new_pages)
    end = entry.position + len(entry.tokens)
    if not entry.tokens:
        raise StepError(f"{name}: an entry without tokens")
    if entry.position != computed:
        raise StepError(f"{name}: position {entry.position}, but {computed} are computed")
    if end > facts.context_tokens_max:
        raise StepError(f"{name}: {end} tokens, the context is {facts.context_tokens_max}")
    if end > num_pages * facts.page_tokens:
        raise StepError(f"{name}: {end} tokens do not fit {num_pages} pages")
    if entry.sample and end < sequence.num_prompt_tokens:
        raise StepError(f"{name}: sampled at {end}, inside its prompt")
    if not 0 <= min(entry.tokens) <= max(entry.tokens) < facts.vocab_size:
        raise StepError(f"{name}: a token outside the vocabulary of {facts.vocab_size}")
