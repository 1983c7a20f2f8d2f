"""`qwen4exp` gives the same bits however a sequence is cut, accompanied, interrupted or resumed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.api import Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.errors import StepError
from engine.local import all_logits
from engine.step import ModelEngine
from helpers.engines import opened, random_prompt
from helpers.qwen4exp_vectors import quantised

GREEDY = Sampling(temperature=0)
A, B, C = (SequenceId(id) for id in (1, 2, 3))
PROMPT = random_prompt(380, 150)  # beyond the index budget of 16 positions
Logits = NDArray[np.float32]


@pytest.fixture(scope="module", params=["f32", "int8"])
def engine(request: pytest.FixtureRequest) -> Iterator[ModelEngine]:
    with opened(quantised("Q2_0"), activations=request.param, sequences_max=3) as engine:
        yield engine


@pytest.fixture(scope="module")
def whole(engine: ModelEngine) -> Logits:
    """The logits of the whole prompt in one step."""
    engine.reset()
    return all_logits(engine, PROMPT)


def begin(engine: ModelEngine, *sequences: SequenceId) -> None:
    engine.reset()
    starts = tuple(
        SequenceStart(sequence=id, sampling=GREEDY, num_prompt_tokens=1) for id in sequences
    )
    engine.step(StepRequest(step=1, starts=starts))


def entry(
    sequence: SequenceId, tokens: list[int], position: int, first_page: int | None = None
) -> StepEntry:
    """Ten pages are given with the first entry of a sequence."""
    pages = () if first_page is None else tuple(range(first_page, first_page + 10))
    return StepEntry(
        sequence=sequence, tokens=tuple(tokens), position=position, new_pages=pages, sample=False
    )


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_any_chunking_gives_the_same_bits(engine: ModelEngine, whole: Logits, chunk: int) -> None:
    engine.reset()
    np.testing.assert_array_equal(all_logits(engine, PROMPT, chunk_tokens=chunk), whole)


def test_company_gives_the_same_bits(engine: ModelEngine, whole: Logits) -> None:
    begin(engine, A, B, C)
    others = {id: random_prompt(380, 150, seed=id) for id in (B, C)}
    parts, at = [], 0
    for count in (1, 30, 2, 64, 53):  # the others go on at another pace
        entries = [
            entry(B, others[B][at : at + count], at, 10 if at == 0 else None),
            entry(A, PROMPT[at : at + count], at, 0 if at == 0 else None),
        ]
        if at == 31:
            entries.append(entry(C, others[C][:40], 0, 20))
        logits = engine.forward_logits(tuple(entries))
        parts.append(logits[count : 2 * count])
        at += count
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("at", [1, 18, 64, 101])
def test_restored_sequence_goes_on_with_the_same_bits(
    engine: ModelEngine, whole: Logits, at: int
) -> None:
    begin(engine, A)
    engine.forward_logits((entry(A, PROMPT[:at], 0, 0),))
    snapshot = engine.snapshot(A)
    engine.forward_logits((entry(A, random_prompt(380, 40, seed=5), at),))  # taken back
    engine.restore(A, snapshot)
    logits = engine.forward_logits((entry(A, PROMPT[at:], at),))
    np.testing.assert_array_equal(logits, whole[at:])


def test_snapshot_carries_over_to_a_sequence_with_the_same_pages(
    engine: ModelEngine, whole: Logits
) -> None:
    """As prefix reuse does: at a page's end, and the pages' content is what it was."""
    begin(engine, A)
    engine.forward_logits((entry(A, PROMPT[:64], 0, 0),))
    snapshot = engine.snapshot(A)
    start = SequenceStart(sequence=B, sampling=GREEDY, num_prompt_tokens=1)
    engine.step(StepRequest(step=2, releases=(A,), starts=(start,)))
    engine.restore(B, snapshot, new_pages=tuple(range(10)))
    logits = engine.forward_logits((entry(B, PROMPT[64:], 64),))
    np.testing.assert_array_equal(logits, whole[64:])


def test_preempted_sequence_goes_on_with_the_same_bits(engine: ModelEngine, whole: Logits) -> None:
    """Preemption by recomputation: released in the middle, begun again in other pages."""
    begin(engine, A, B)
    engine.forward_logits((entry(A, PROMPT[:77], 0, 0), entry(B, [7] * 33, 0, 10)))
    start = SequenceStart(sequence=A, sampling=GREEDY, num_prompt_tokens=1)
    engine.step(StepRequest(step=2, releases=(A,)))
    engine.forward_logits((entry(B, [8] * 20, 33),))
    engine.step(StepRequest(step=3, starts=(start,)))
    again = engine.forward_logits((entry(A, PROMPT[:100], 0, 20),))
    rest = engine.forward_logits((entry(A, PROMPT[100:], 100), entry(B, [9], 53)))
    np.testing.assert_array_equal(np.concatenate([again, rest[:50]]), whole)


def test_slot_of_an_ended_sequence_is_clean_for_the_next(
    engine: ModelEngine, whole: Logits
) -> None:
    for _ in range(4):  # more often than there are slots
        begin(engine, A)
        engine.forward_logits((entry(A, random_prompt(380, 30, seed=3), 0, 0),))
    engine.reset()
    np.testing.assert_array_equal(all_logits(engine, PROMPT), whole)


def test_snapshot_beyond_the_pages_is_refused(engine: ModelEngine) -> None:
    begin(engine, A, B)
    engine.forward_logits((entry(A, PROMPT[:40], 0, 0),))
    with pytest.raises(StepError, match="no pages for 40 tokens"):
        engine.restore(B, engine.snapshot(A))
    with pytest.raises(StepError, match="pages that are in use"):
        engine.restore(B, engine.snapshot(A), new_pages=(3,))
    engine.check_invariants()


def test_invariants_hold_along_the_way(engine: ModelEngine) -> None:
    begin(engine, A, B)
    engine.forward_logits((entry(A, PROMPT[:40], 0, 0), entry(B, PROMPT[:3], 0, 10)))
    engine.check_invariants()
    engine.step(StepRequest(step=2, releases=(A,)))
    engine.check_invariants()


def test_recorded_decode_steps_give_the_bits_of_a_prompt_whoever_takes_part(
    engine: ModelEngine, whole: Logits
) -> None:
    """Steps of one, two and three sequences in any order and place run the same recorded pieces."""
    begin(engine, A, B, C)
    computed = dict.fromkeys((A, B, C), 0)
    for round in range(8):
        for group in ((A,), (A, B), (B,), (B, A), (A, B, C), (C, A, B), (C,)):
            entries = tuple(
                entry(id, PROMPT[computed[id] : computed[id] + 1], computed[id],
                      first_page=10 * place if computed[id] == 0 else None)
                for place, id in ((id - 1, id) for id in group)
            )  # fmt: skip
            rows = engine.forward_logits(entries)
            for row, id in zip(rows, group, strict=True):
                np.testing.assert_array_equal(row, whole[computed[id]], err_msg=f"{round}, {id}")
                computed[id] += 1
    assert min(computed.values()) > 16  # beyond what every position sees, where attention selects


def test_what_a_step_returned_stays_when_others_follow(engine: ModelEngine) -> None:
    begin(engine, A)
    first = engine.forward_hidden((entry(A, PROMPT[:1], 0, first_page=0),))
    kept = first.clone()
    engine.forward_hidden((entry(A, PROMPT[1:2], 1),))
    assert first.equal(kept)
