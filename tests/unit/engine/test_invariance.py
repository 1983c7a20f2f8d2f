"""The same bits whatever the batch, the chunks, the pages, the threads; on the demo model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from engine.api import Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.kernels import ops
from engine.local import all_logits, generate
from engine.step import ModelEngine
from helpers.engines import DEMO, opened, random_prompt

LENGTH = 100
PROMPT = random_prompt(1000, LENGTH)
OTHERS = [random_prompt(1000, length, seed=1) for length in (1, 9, 30)]
DRAWN = Sampling(
    temperature=1.0, top_p=0.95, seed=7, repetition_penalty=1.1, frequency_penalty=0.2, logprobs=2
)
Bits = tuple[int, float | None]


@pytest.fixture(scope="module", params=["f32", "int8"])
def engine(request: pytest.FixtureRequest) -> Iterator[ModelEngine]:
    with opened(DEMO, activations=request.param) as engine:
        yield engine


@pytest.fixture(autouse=True)
def two_threads_afterwards() -> Iterator[None]:
    before = ops.variant()
    yield
    ops.set_num_threads(2)
    ops.set_variant(before)


def drawn(engine: ModelEngine, prompts: list[list[int]], chunk_tokens: int = 0) -> list[list[Bits]]:
    """Tokens and log probabilities of 12 drawn tokens per prompt."""
    out: list[list[Bits]] = [[] for _ in prompts]
    run = partial(generate, engine, prompts, DRAWN, max_tokens=12, chunk_tokens=chunk_tokens)
    for each in run():
        out[each.index].append((each.token.token, each.token.logprob))
    return out


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_do_not_change_logits(chunk: int, engine: ModelEngine) -> None:
    assert np.array_equal(all_logits(engine, PROMPT, chunk), all_logits(engine, PROMPT))


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_change_logits(threads: int, engine: ModelEngine) -> None:
    expected = all_logits(engine, PROMPT)
    ops.set_num_threads(threads)
    assert np.array_equal(all_logits(engine, PROMPT), expected)


@pytest.mark.parametrize("variant", ops.variants())
def test_every_variant_is_invariant(variant: str, engine: ModelEngine) -> None:
    ops.set_variant(variant)
    expected = all_logits(engine, PROMPT[:40])
    ops.set_num_threads(3)
    assert np.array_equal(all_logits(engine, PROMPT[:40], 7), expected)


@pytest.mark.parametrize("chunk", [1, 7, 0])
def test_company_does_not_change_what_is_drawn(chunk: int, engine: ModelEngine) -> None:
    """Prompts of several lengths: their steps mix prefill and decode."""
    alone = [drawn(engine, [prompt])[0] for prompt in (PROMPT, *OTHERS)]
    assert drawn(engine, [PROMPT, *OTHERS], chunk) == alone


def test_order_of_a_batch_does_not_matter(engine: ModelEngine) -> None:
    prompts = [PROMPT, *OTHERS]
    assert drawn(engine, prompts[::-1])[::-1] == drawn(engine, prompts)


def test_pages_do_not_change_logits(engine: ModelEngine) -> None:
    """Pages in a scrambled order, full of what others left there."""
    expected = all_logits(engine, PROMPT)
    drawn(engine, [PROMPT, *OTHERS])
    page_tokens, num_pages = engine.facts.page_tokens, engine.facts.num_pages
    scrambled = np.random.default_rng(0).permutation(num_pages)[: -(-LENGTH // page_tokens)]
    start = SequenceStart(sequence=SequenceId(5), sampling=DRAWN, num_prompt_tokens=LENGTH)
    entry = StepEntry(
        sequence=SequenceId(5),
        tokens=tuple(PROMPT),
        position=0,
        new_pages=tuple(int(page) for page in scrambled),
    )
    engine.step(StepRequest(step=1, starts=(start,)))
    logits = engine.forward_logits((entry,))
    engine.reset()
    assert np.array_equal(logits, expected)


@pytest.mark.parametrize("kept", [1, 6, 11])
def test_sequence_goes_on_after_it_was_released_and_fed_again(
    kept: int, engine: ModelEngine
) -> None:
    """What preemption does: prompt and output as one prefill, then decoding from there."""
    expected = drawn(engine, [PROMPT])[0]
    tokens = PROMPT + [token for token, _ in expected[:kept]]
    start = SequenceStart(sequence=SequenceId(3), sampling=DRAWN, num_prompt_tokens=LENGTH)
    pages = tuple(range(10, 10 + (LENGTH + 12) // engine.facts.page_tokens + 1))
    entry = StepEntry(sequence=SequenceId(3), tokens=tuple(tokens), position=0, new_pages=pages)
    request = StepRequest(step=1, starts=(start,), entries=(entry,))
    again: list[Bits] = []
    while len(again) < len(expected) - kept:
        (sampled,) = engine.step(request).sampled
        again.append((sampled.token, sampled.logprob))
        tokens.append(sampled.token)
        entry = StepEntry(sequence=SequenceId(3), tokens=(sampled.token,), position=len(tokens) - 1)
        request = StepRequest(step=1, entries=(entry,))
    engine.reset()
    assert again == expected[kept:]
