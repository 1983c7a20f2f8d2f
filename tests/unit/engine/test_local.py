"""Driving an engine in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api import Sampling, SequenceId
from engine.errors import PromptError
from engine.fake import FakeEngine, next_token
from engine.local import Driver, all_logits, check_prompt, generate
from engine.sampler import sample
from engine.sequence import TokenHistory
from helpers.engines import opened
from helpers.tiny_gguf import write_tiny_model

GREEDY = Sampling(temperature=0)
Streams = list[list[int]]


def streams(engine: FakeEngine, prompts: Streams, max_tokens: int, chunk: int = 0) -> Streams:
    out: Streams = [[] for _ in prompts]
    for each in generate(engine, prompts, GREEDY, max_tokens=max_tokens, chunk_tokens=chunk):
        out[each.index].append(each.token.token)
    return out


def expected_stream(prompt: list[int], max_tokens: int) -> list[int]:
    """What the fake engine gives, computed by hand."""
    tokens = list(prompt)
    for _ in range(max_tokens):
        tokens.append(next_token(tokens, 0, 1000, num_prompt_tokens=len(prompt)))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("chunk", [0, 1, 3])
@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"num_pages": 4, "page_tokens": 8},  # room for little more than one at a time
        {"sequences_max": 1},
        {"step_tokens_max": 2},
    ],
    ids=str,
)
def test_streams_are_right_within_any_limits(chunk: int, limits: dict[str, int]) -> None:
    """The fake refuses what the engine refuses, and its tokens depend on every token before."""
    prompts = [[index + 1] * length for index, length in enumerate((1, 17, 8, 5, 9))]
    engine = FakeEngine(**limits)  # type: ignore[arg-type]
    assert streams(engine, prompts, 14, chunk) == [expected_stream(p, 14) for p in prompts]
    assert engine.open_sequences == frozenset()


def test_runs_that_grow_never_run_out_of_pages() -> None:
    """Short prompts with long answers: all would start, not all could end."""
    engine = FakeEngine(num_pages=6, page_tokens=4)
    prompts = [[1], [2], [3], [4]]
    assert streams(engine, prompts, 15) == [expected_stream(p, 15) for p in prompts]


def test_stop_token_ends_one_stream_and_not_the_others() -> None:
    stop = expected_stream([1], 3)[-1]
    finished = {}
    generated = generate(
        *(FakeEngine(), [[1], [2]], GREEDY), max_tokens=9, stop_tokens=frozenset({stop})
    )
    counts = [0, 0]
    for each in generated:
        counts[each.index] += 1
        if each.finish:
            finished[each.index] = each.finish
    assert (counts, finished) == ([3, 9], {0: "stop", 1: "length"})


def test_sequences_are_released_when_the_reader_stops_early() -> None:
    engine = FakeEngine()
    generated = generate(engine, [[1, 2]], GREEDY, max_tokens=9)
    next(generated)
    assert engine.open_sequences
    generated.close()  # type: ignore[attr-defined]
    assert engine.open_sequences == frozenset()


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "message"),
    [
        ([], 1, "the prompt is empty"),
        ([1, -1], 1, "token -1 is outside the vocabulary of 1000"),
        ([1000], 1, "token 1000 is outside"),
        ([1] * 60, 5, "60 prompt tokens and 5 to generate exceed the context of 64"),
    ],
)
def test_prompt_that_cannot_be_taken_is_refused(
    prompt: list[int], max_tokens: int, message: str
) -> None:
    engine = FakeEngine(num_pages=4, page_tokens=16)
    with pytest.raises(PromptError, match=message):
        check_prompt(engine, prompt, max_tokens)
    with pytest.raises(PromptError, match=message):
        next(generate(engine, [[1], prompt], GREEDY, max_tokens=max_tokens))
    assert engine.open_sequences == frozenset()


def test_step_prefers_what_began_first() -> None:
    driver = Driver(FakeEngine(step_tokens_max=4))
    first, second = (driver.add([token] * 6, GREEDY, 4) for token in (1, 2))
    driver.step()
    assert (first.computed, second.computed) == (4, 0)
    driver.step()
    assert (first.computed, second.computed) == (6, 2)
    driver.step()
    assert (first.computed, second.computed) == (7, 5)


def test_logits_have_a_row_per_token_and_leave_nothing_open(tmp_path: Path) -> None:
    with opened(write_tiny_model(tmp_path / "m.gguf"), step_tokens_max=8) as engine:
        assert all_logits(engine, list(range(20))).shape == (20, 267)
        assert all_logits(engine, [3]).shape == (1, 267)
        engine.check_invariants()


def test_tokens_are_what_the_sampler_draws_from_the_logits(tmp_path: Path) -> None:
    """The n-th output token is draw number n from the row before it."""
    sampling = Sampling(temperature=2.0, seed=3, repetition_penalty=1.5, frequency_penalty=0.5)
    prompt = [4, 5, 6, 4]
    with opened(write_tiny_model(tmp_path / "m.gguf")) as engine:
        stream = generate(engine, [prompt], sampling, max_tokens=20)
        tokens = [each.token.token for each in stream]
        rows = all_logits(engine, prompt + tokens)[len(prompt) - 1 :]
    history = TokenHistory(len(prompt))
    history.extend(tuple(prompt), 0)
    for index, token in enumerate(tokens):
        assert sample(SequenceId(0), rows[index], sampling, history, index).token == token
        history.extend((token,), len(prompt) + index)
