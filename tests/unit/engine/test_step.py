"""Which steps are refused, that a refused step changes nothing, and what a step gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.api import Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.errors import NumericsError, StepError
from engine.fake import FakeEngine
from engine.gguf.writer import write_gguf
from engine.step import ModelEngine
from helpers.engines import opened
from helpers.tiny_gguf import (
    TinyModel,
    tensor_source,
    tiny_metadata,
    tiny_weights,
    write_tiny_model,
)

GREEDY = Sampling(temperature=0, logprobs=1)
A, B, C = SequenceId(1), SequenceId(2), SequenceId(3)
KV_TOKENS = 64  # four pages, less than the model's context
SEQUENCES_MAX = 2
STEP_TOKENS_MAX = 32


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "m.gguf")


@pytest.fixture
def engine(model: Path) -> Iterator[ModelEngine]:
    """A has 10 tokens computed in page 0, 8 of them prompt."""
    limits = {"sequences_max": SEQUENCES_MAX, "step_tokens_max": STEP_TOKENS_MAX}
    with opened(model, kv_tokens=KV_TOKENS, **limits) as engine:
        first = entry(A, range(10), new_pages=(0,))
        engine.step(StepRequest(step=1, starts=(start(A),), entries=(first,)))
        yield engine


def start(sequence: SequenceId, prompt: int = 8, **sampling: Any) -> SequenceStart:
    return SequenceStart(
        sequence=sequence,
        sampling=replace(GREEDY, **sampling),
        num_prompt_tokens=prompt,
    )


def entry(
    sequence: SequenceId,
    tokens: range | tuple[int, ...],
    position: int = 0,
    new_pages: tuple[int, ...] = (),
    *,
    sample: bool = True,
) -> StepEntry:
    return StepEntry(
        sequence=sequence,
        tokens=tuple(tokens),
        position=position,
        new_pages=new_pages,
        sample=sample,
    )


def request(
    *entries: StepEntry,
    starts: tuple[SequenceStart, ...] = (),
    releases: tuple[SequenceId, ...] = (),
) -> StepRequest:
    return StepRequest(step=2, releases=releases, starts=starts, entries=entries)


NEXT = entry(A, (5,), 10)
BAD: dict[str, tuple[StepRequest, str]] = {
    "release of a closed one": (request(NEXT, releases=(B,)), "2 is released but not open"),
    "release twice": (request(releases=(A, A)), "released twice"),
    "start of an open one": (request(NEXT, starts=(start(A),)), "1 is started but open"),
    "start twice": (request(starts=(start(B), start(B))), "started twice"),
    "start without prompt": (request(starts=(start(B, 0),)), "2 has no prompt"),
    "too many sequences": (request(NEXT, starts=(start(B), start(C))), "more than 2"),
    "two entries": (request(NEXT, entry(A, (6,), 11)), "two entries"),
    "too many tokens": (request(entry(A, range(33), 10, (1, 2))), "33 tokens, 32 is the most"),
    "not open": (request(NEXT, entry(B, (1,), 0, (1,))), "2 is not open"),
    "released and continued": (request(NEXT, releases=(A,)), "1 is not open"),
    "no tokens": (request(entry(A, (), 10)), "without tokens"),
    "gap": (request(entry(A, (1,), 11)), "position 11, but 10 are computed"),
    "overlap": (request(entry(A, (1,), 9)), "position 9, but 10 are computed"),
    "new one not at 0": (request(entry(B, (1,), 1, (1,)), starts=(start(B),)), "position 1, but 0"),
    "too few pages": (request(entry(A, range(7), 10)), "17 tokens do not fit 1 pages"),
    "no pages": (request(entry(B, range(8)), starts=(start(B),)), "8 tokens do not fit 0 pages"),
    "page in use": (request(entry(B, range(8), 0, (0,)), starts=(start(B),)), "page 0 is in use"),
    "own page again": (request(entry(A, (5,), 10, (0,))), "page 0 is in use"),
    "page twice": (request(entry(A, (5,), 10, (1, 1))), "page 1 is in use"),
    "page for two": (
        request(*(entry(A, (5,), 10, (1,)), entry(B, range(8), 0, (1,))), starts=(start(B),)),
        "2: page 1 is in use",
    ),
    "no such page": (request(entry(A, (5,), 10, (4,))), "no page 4"),
    "negative page": (request(entry(A, (5,), 10, (-1,))), "no page -1"),
    "no such token": (request(entry(A, (267,), 10)), "outside the vocabulary of 267"),
    "negative token": (request(entry(A, (-1,), 10)), "outside the vocabulary of 267"),
    "sampled in the prompt": (
        request(NEXT, entry(B, range(7), 0, (1,)), starts=(start(B),)),
        "sampled at 7, inside its prompt",
    ),
    "bad entry after a good one": (
        request(NEXT, entry(B, (999,), 0, (1,)), starts=(start(B, 1),)),
        "2: a token outside",
    ),
}
IMPOSSIBLE: dict[str, Any] = {
    "temperature": -1.0,
    "top_k": -1,
    "top_p": 1.5,
    "min_p": float("nan"),
    "repetition_penalty": 0.0,
    "presence_penalty": float("inf"),
    "seed": -1,
    "logprobs": -1,
    "logit_bias": ((267, 1.0),),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_step_is_refused_and_changes_nothing(name: str, engine: ModelEngine) -> None:
    bad, message = BAD[name]
    with pytest.raises(StepError, match=message):
        engine.step(bad)
    engine.check_invariants()
    assert_stands_where_it_stood(engine)


@pytest.mark.parametrize("field", IMPOSSIBLE)
def test_impossible_sampling_is_refused_and_changes_nothing(
    field: str, engine: ModelEngine
) -> None:
    named = "presence or frequency penalty" if field.startswith("presence") else field
    with pytest.raises(StepError, match=f"sequence 2: sampling with an impossible {named}"):
        engine.step(request(starts=(start(B, **{field: IMPOSSIBLE[field]}),)))
    assert_stands_where_it_stood(engine)


@pytest.mark.parametrize(
    "bad",
    [
        *(bad for bad, _ in BAD.values()),
        *(request(starts=(start(B, **{field: value}),)) for field, value in IMPOSSIBLE.items()),
    ],
    ids=[*BAD, *IMPOSSIBLE],
)
def test_fake_engine_refuses_the_same_steps(bad: StepRequest) -> None:
    fake = FakeEngine(
        vocab_size=TinyModel().vocab,
        num_pages=KV_TOKENS // 16,
        sequences_max=SEQUENCES_MAX,
        step_tokens_max=STEP_TOKENS_MAX,
    )
    fake.step(request(entry(A, range(10), new_pages=(0,)), starts=(start(A),)))
    with pytest.raises(StepError):
        fake.step(bad)
    assert fake.open_sequences == {A}
    fake.step(request(NEXT))


def assert_stands_where_it_stood(engine: ModelEngine) -> None:
    """A goes on as it does when computed at once, and every page but its own can be had."""
    prompt = (*range(10), 5)
    sampled = engine.step(request(NEXT)).sampled
    engine.step(request(entry(B, range(33 - 8), 0, (1, 2, 3)), starts=(start(B),)))
    engine.check_invariants()
    engine.reset()
    whole = engine.step(request(entry(A, prompt, 0, (2,)), starts=(start(A),))).sampled
    assert sampled == whole


def test_pages_of_a_released_sequence_serve_another_in_the_same_step(engine: ModelEngine) -> None:
    fresh = entry(B, range(20, 30), 0, (0,))
    reused = engine.step(request(fresh, starts=(start(B),), releases=(A,))).sampled
    engine.check_invariants()
    engine.reset()
    assert engine.step(request(fresh, starts=(start(B),))).sampled == reused


def test_sequence_is_released_and_started_again_in_one_step(engine: ModelEngine) -> None:
    again = entry(A, range(10), 0, (0,))
    before = engine.step(request(NEXT)).sampled
    engine.step(request(again, starts=(start(A),), releases=(A,)))
    engine.check_invariants()
    assert engine.step(request(NEXT)).sampled == before


def test_context_ends_with_the_cache(engine: ModelEngine) -> None:
    assert engine.facts.context_tokens_max == KV_TOKENS
    engine.step(request(entry(A, range(32), 10, (1, 2, 3))))
    engine.step(request(entry(A, range(22), 42)))
    with pytest.raises(StepError, match="65 tokens, the context is 64"):
        engine.step(request(entry(A, (1,), 64)))


def test_context_ends_with_the_model(tmp_path: Path) -> None:
    short = write_tiny_model(tmp_path / "m.gguf", context=20)
    with opened(short) as engine:
        assert engine.facts.context_tokens_max == 20
        engine.step(request(entry(A, range(20), 0, (0, 1)), starts=(start(A),)))
        with pytest.raises(StepError, match="21 tokens, the context is 20"):
            engine.step(request(entry(A, (1,), 20)))


def test_step_without_entries_only_opens_and_releases(engine: ModelEngine) -> None:
    result = engine.step(request(starts=(start(B),), releases=(A,)))
    assert (result.step, result.sampled, result.stats.weight_bytes_read) == (2, (), 0)
    with pytest.raises(StepError, match="1 is not open"):
        engine.step(request(NEXT))


def test_only_entries_that_ask_are_sampled_in_their_order(engine: ModelEngine) -> None:
    quiet, loud = entry(A, (5,), 10, sample=False), entry(B, range(8), 0, (1,))
    assert [s.sequence for s in engine.step(request(quiet, loud, starts=(start(B),))).sampled] == [
        B
    ]
    both = request(entry(B, (1,), 8), entry(A, (1,), 11))
    assert [s.sequence for s in engine.step(both).sampled] == [B, A]


def test_presence_penalty_counts_what_was_put_out_and_not_the_prompt(engine: ModelEngine) -> None:
    """Five tokens are far ahead and none may come twice: all five come, those of the prompt too."""
    bias = tuple((token, 1e4) for token in range(5))
    opened_b = start(B, 4, presence_penalty=1e6, logit_bias=bias)
    tokens = [0, 1, 2, 3]
    step = request(entry(B, tuple(tokens), 0, (1,)), starts=(opened_b,))
    while len(tokens) < 9:
        tokens.append(engine.step(step).sampled[0].token)
        step = request(entry(B, (tokens[-1],), len(tokens) - 1))
    assert sorted(tokens[4:]) == [0, 1, 2, 3, 4]


def test_stats_count_tokens_experts_and_bytes(engine: ModelEngine) -> None:
    stats = engine.step(request(NEXT, entry(B, range(8), 0, (1,)), starts=(start(B),))).stats
    assert (stats.prefill_tokens, stats.decode_tokens) == (8, 1)
    assert 2 <= stats.experts_used <= 8
    alone = engine.step(request(entry(A, (5,), 11))).stats
    assert alone.experts_used == 2
    model = TinyModel()
    expert = 3 * model.ff * model.hidden * 4
    table = model.vocab * model.hidden * 4
    unused = model.layers * (model.experts - model.experts_used) * expert
    assert alone.weight_bytes_read == engine.facts.weight_bytes - table - unused


def poisoned_head(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values[3, 3] = np.nan
    return values


def poisoned_router(values: np.ndarray) -> np.ndarray:
    return np.full_like(values, np.nan)


@pytest.mark.parametrize(
    ("tensor", "poison"),
    [("output.weight", poisoned_head), ("blk.0.ffn_gate_inp.weight", poisoned_router)],
)
def test_logits_that_are_no_numbers_are_an_error_that_names_the_sequence(
    tensor: str, poison: Callable[[np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    model = TinyModel()
    weights = tiny_weights(model)
    weights[tensor] = poison(weights[tensor])
    sources = [tensor_source(name, values, model) for name, values in weights.items()]
    write_gguf(tmp_path / "m.gguf", tiny_metadata(model), sources)
    with opened(tmp_path / "m.gguf") as engine:
        first = request(entry(B, range(8), 0, (0,)), starts=(start(B),))
        with pytest.raises(NumericsError, match="sequence 2"):
            engine.step(first)
        engine.check_invariants()
