"""The fake engine keeps the rules of the protocol and changes nothing when they are broken."""

from __future__ import annotations

import dataclasses

import pytest

from engine.api import Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.errors import StepError
from engine.fake import FakeEngine, next_token

A, B = SequenceId(1), SequenceId(2)


def engine() -> FakeEngine:
    return FakeEngine(vocab_size=50, page_tokens=4, num_pages=6, sequences_max=2, step_tokens_max=8)


def start(sequence: SequenceId = A, *, prompt: int = 3, seed: int = 0) -> SequenceStart:
    sampling = Sampling(seed=seed)
    return SequenceStart(sequence=sequence, sampling=sampling, num_prompt_tokens=prompt)


def entry(
    tokens: tuple[int, ...] = (1, 2, 3),
    *,
    sequence: SequenceId = A,
    position: int = 0,
    pages: tuple[int, ...] = (0,),
    sample: bool = True,
) -> StepEntry:
    return StepEntry(
        sequence=sequence, tokens=tokens, position=position, new_pages=pages, sample=sample
    )


def step(
    *entries: StepEntry,
    starts: tuple[SequenceStart, ...] = (),
    releases: tuple[SequenceId, ...] = (),
) -> StepRequest:
    return StepRequest(step=1, releases=releases, starts=starts, entries=entries)


OPENED = step(entry(), starts=(start(),))
NEXT = entry((9,), position=3, pages=())
BROKEN = {
    "position": step(entry((9,), position=4, pages=())),
    "position behind": step(entry((9,), position=2, pages=())),
    "too few pages": step(entry((9, 9), position=3, pages=())),
    "page of another": step(entry(sequence=B, pages=(0,)), starts=(start(B),)),
    "page granted twice": step(NEXT, entry(sequence=B, pages=(1, 1)), starts=(start(B),)),
    "page of its own": step(entry((9,), position=3, pages=(0,))),
    "no such page": step(entry((9,), position=3, pages=(6,))),
    "no tokens": step(entry((), position=3, pages=())),
    "no such token": step(entry((50,), position=3, pages=())),
    "too many tokens": step(entry((9,) * 9, position=3, pages=(1, 2))),
    "two entries": step(NEXT, dataclasses.replace(NEXT, position=4)),
    "not open": step(entry(sequence=B, pages=(1,))),
    "open already": step(NEXT, starts=(start(A),)),
    "released but not open": step(NEXT, releases=(B,)),
    "released twice": step(releases=(A, A)),
    "too many sequences": step(starts=(start(B), start(SequenceId(3)))),
    "sampled inside the prompt": step(entry((1,), sequence=B, pages=(1,)), starts=(start(B),)),
    "no prompt": step(starts=(start(B, prompt=0),)),
    "release and a broken entry": step(entry(sequence=B, pages=(1,)), releases=(A,)),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_broken_step_is_refused_and_changes_nothing(broken: StepRequest) -> None:
    fake, untouched = engine(), engine()
    fake.step(OPENED)
    untouched.step(OPENED)
    with pytest.raises(StepError):
        fake.step(broken)
    assert fake.open_sequences == {A}
    assert fake.step(step(NEXT)).sampled == untouched.step(step(NEXT)).sampled


def test_token_is_the_one_computed_by_hand() -> None:
    sampled = engine().step(step(entry(), starts=(start(seed=5),))).sampled
    assert [t.token for t in sampled] == [next_token([1, 2, 3], 5, 50, num_prompt_tokens=3)]


def test_token_depends_on_each_thing_that_it_should() -> None:
    base = next_token([1, 2, 3], 5, 1 << 60, num_prompt_tokens=2)
    others = [
        next_token([2, 1, 3], 5, 1 << 60, num_prompt_tokens=2),
        next_token([1, 2], 5, 1 << 60, num_prompt_tokens=2),
        next_token([1, 2, 3], 6, 1 << 60, num_prompt_tokens=2),
        next_token([1, 2, 3], 5, 1 << 60, num_prompt_tokens=1),
    ]
    assert base not in others


def test_chunks_and_company_do_not_change_a_token() -> None:
    alone, chunked = engine(), engine()
    whole = alone.step(step(entry((1, 2, 3, 4, 5), pages=(0, 1)), starts=(start(prompt=5),)))
    chunked.step(
        step(
            entry((1, 2), sample=False),
            entry((8,), sequence=B, pages=(5,)),
            starts=(start(prompt=5), start(B, prompt=1)),
        )
    )
    rest = chunked.step(step(entry((3, 4, 5), position=2, pages=(3,))))
    assert rest.sampled == whole.sampled


def test_released_pages_may_be_used_in_the_same_step() -> None:
    fake = engine()
    fake.step(OPENED)
    fake.step(step(entry(sequence=B, pages=(0,)), releases=(A,), starts=(start(B),)))
    assert fake.open_sequences == {B}


def test_logprobs_come_when_they_are_asked_for() -> None:
    fake = engine()
    asked = SequenceStart(sequence=A, sampling=Sampling(logprobs=1), num_prompt_tokens=3)
    token = fake.step(step(entry(), starts=(asked,))).sampled[0]
    assert token.top == ((token.token, token.logprob),)


def test_step_after_close_is_a_broken_promise() -> None:
    fake = engine()
    fake.close()
    with pytest.raises(AssertionError, match="after close"):
        fake.step(OPENED)
