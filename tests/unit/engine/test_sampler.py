"""The sampler against a slow and obvious one, and against statistics."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from engine.api import Sampling, SequenceId
from engine.errors import NumericsError
from engine.rules import impossible
from engine.sampler import (
    Floats,
    adjust,
    best,
    candidates,
    draw,
    log_softmax,
    nucleus,
    sample,
)
from engine.sequence import TokenHistory

VOCAB = 50
ID = SequenceId(1)
PLAIN = Sampling()


def random_logits(seed: int, vocab: int = VOCAB) -> Floats:
    """Rounded, so that ties are common."""
    values = np.random.default_rng(seed).standard_normal(vocab) * 3
    return (np.round(values * 2) / 2).astype(np.float32)


def history(prompt: tuple[int, ...] = (), output: tuple[int, ...] = ()) -> TokenHistory:
    made = TokenHistory(num_prompt_tokens=len(prompt))
    made.extend(prompt + output, 0)
    return made


def obvious_distribution(
    logits: Floats, sampling: Sampling, prompt: tuple[int, ...], output: tuple[int, ...]
) -> dict[int, float]:
    """Token -> probability, from the definitions, with plain lists."""
    scores = [float(value) for value in logits]
    for token in set(prompt + output):
        penalty = sampling.repetition_penalty
        scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
    for token in set(output):
        scores[token] -= sampling.presence_penalty
        scores[token] -= sampling.frequency_penalty * output.count(token)
    for token, bias in sampling.logit_bias:
        scores[token] += bias
    ranked = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    if sampling.temperature == 0:
        return {ranked[0]: 1.0}
    if sampling.top_k:
        ranked = ranked[: sampling.top_k]
    best_score = scores[ranked[0]]
    weights = {t: math.exp((scores[t] - best_score) / sampling.temperature) for t in ranked}
    weights = {t: weight for t, weight in weights.items() if weight >= sampling.min_p}
    total, reached = sum(weights.values()), 0.0
    kept: dict[int, float] = {}
    for token, weight in weights.items():
        if not kept or reached < sampling.top_p * total or sampling.top_p == 1:
            kept[token] = weight
        reached += weight
    return {token: weight / sum(kept.values()) for token, weight in kept.items()}


def our_distribution(
    logits: Floats, sampling: Sampling, prompt: tuple[int, ...], output: tuple[int, ...]
) -> dict[int, float]:
    adjusted = adjust(logits, sampling, history(prompt, output))
    if sampling.temperature == 0:
        return {sample(ID, logits, sampling, history(prompt, output), 0).token: 1.0}
    ids, probabilities = candidates(adjusted, sampling)
    return {int(token): float(p) for token, p in zip(ids, probabilities, strict=True)}


COMBINATIONS = [
    Sampling(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition,
        presence_penalty=0.3 * penalised,
        frequency_penalty=-0.2 * penalised,
        logit_bias=((4, 2.5), (7, -100.0), (4, 1.0)) if penalised else (),
    )
    for temperature, top_k, top_p, min_p, (repetition, penalised) in product(
        (0.0, 0.7, 1.0, 2.0),
        (0, 1, 5, VOCAB, 1000),
        (0.0, 0.5, 0.93, 1.0),
        (0.0, 0.1, 1.0),
        ((1.0, 0), (1.3, 0), (0.8, 1)),
    )
]


@pytest.mark.parametrize("seed", range(5))
def test_distribution_equals_the_obvious_one(seed: int) -> None:
    logits = random_logits(seed)
    random = np.random.default_rng(seed)
    prompt, output = (tuple(int(t) for t in random.integers(0, VOCAB, n)) for n in (6, 9))
    for sampling in COMBINATIONS:
        expected = obvious_distribution(logits, sampling, prompt, output)
        assert our_distribution(logits, sampling, prompt, output) == pytest.approx(expected)


@pytest.mark.parametrize("top_p", [0.001, 0.5, 0.9, 0.999999])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 4.0])
def test_nucleus_of_a_large_vocabulary_equals_the_sorted_one(top_p: float, spread: float) -> None:
    """Flat and steep: the nucleus lies within its first guess, or far beyond."""
    weights = np.exp(np.random.default_rng(0).standard_normal(20_000) * spread)
    order = np.lexsort((np.arange(weights.size), -weights))
    before = np.cumsum(weights[order]) - weights[order]
    expected = order[before < top_p * weights.sum()]
    assert nucleus(weights, top_p).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "sampling",
    [
        PLAIN,
        Sampling(temperature=0.5, top_k=6),
        Sampling(top_p=0.8),
        Sampling(temperature=1.5, min_p=0.05, presence_penalty=1.0),
    ],
)
@pytest.mark.parametrize("over", ["seeds", "tokens"])
def test_draws_follow_the_distribution(sampling: Sampling, over: str) -> None:
    """Chi-square over 4000 draws; with these fixed seeds it passes or fails for good."""
    logits, prompt, output, draws = random_logits(1), (1, 2), (3,), 4000
    expected = obvious_distribution(logits, sampling, prompt, output)
    past, counts = history(prompt, output), Counter[int]()
    for draw_index in range(draws):
        seed, output_index = (draw_index, 5) if over == "seeds" else (5, draw_index)
        counts[sample(ID, logits, replace(sampling, seed=seed), past, output_index).token] += 1
    assert counts.keys() <= expected.keys()
    common = {token for token, p in expected.items() if p * draws >= 5}
    rare = draws - sum(counts[token] for token in common)
    rare_expected = draws * (1 - sum(expected[token] for token in common))
    statistic = sum(
        (counts[token] - draws * expected[token]) ** 2 / (draws * expected[token])
        for token in common
    )
    if rare_expected > 0.5:
        statistic += (rare - rare_expected) ** 2 / rare_expected
    freedom = len(common)
    assert statistic < freedom + 4 * math.sqrt(2 * freedom)


def test_draw_depends_on_seed_and_index_alone() -> None:
    logits = random_logits(2)
    grid = [(seed, index) for seed in (0, 1, 2**64 - 1) for index in range(20)]

    def drawn(seed: int, index: int) -> int:
        return sample(ID, logits, Sampling(seed=seed), history(), index).token

    forward = {each: drawn(*each) for each in grid}
    assert {each: drawn(*each) for each in reversed(grid)} == forward
    rows = [tuple(forward[seed, index] for index in range(20)) for seed in (0, 1, 2**64 - 1)]
    assert len(set(rows)) == 3


def test_draw_takes_the_last_candidate_when_rounding_leaves_a_rest() -> None:
    ids, short = np.array([4, 9]), np.array([0.0, 0.0])
    assert draw(ids, short, 0, 0) == 9


def test_ties_go_to_the_lowest_id() -> None:
    logits = np.zeros(VOCAB, np.float32)
    logits[[8, 3, 30]] = 1
    assert sample(ID, logits, Sampling(temperature=0), history(), 0).token == 3
    assert best(logits, 5).tolist() == [3, 8, 30, 0, 1]
    ids, probabilities = candidates(logits, Sampling(top_k=2))
    assert (ids.tolist(), probabilities.tolist()) == ([3, 8], [0.5, 0.5])


@pytest.mark.parametrize("count", [0, 1, 7, VOCAB, VOCAB + 1])
def test_best_equals_a_sort(count: int) -> None:
    values = random_logits(3)
    assert best(values, count).tolist() == np.lexsort((np.arange(VOCAB), -values))[:count].tolist()


def test_logprobs_are_those_before_temperature_filters_and_penalties() -> None:
    logits = random_logits(4, 1000)
    exact = logits.astype(np.float64)
    exact -= np.log(np.exp(exact).sum())
    sampling = Sampling(temperature=0.3, top_k=4, logit_bias=((0, 5.0),), logprobs=3)
    token = sample(ID, logits, sampling, history((1,), (2,)), 0)
    assert token.logprob == pytest.approx(exact[token.token], abs=1e-12)
    ranked = np.lexsort((np.arange(1000), -exact))[:3]
    assert [t for t, _ in token.top] == ranked.tolist()
    assert [p for _, p in token.top] == pytest.approx(exact[ranked], abs=1e-12)


def test_log_softmax_stands_large_logits() -> None:
    assert log_softmax(np.array([3e38, 0, 3e38], np.float32)).tolist()[1] == -float(
        np.float32(3e38)
    )


@pytest.mark.parametrize(
    ("count", "expected"), [(None, (None, 0)), (0, (float, 0)), (2, (float, 2)), (99, (float, 50))]
)
def test_logprobs_are_given_as_asked(count: int | None, expected: tuple[type, int]) -> None:
    token = sample(ID, random_logits(0), Sampling(logprobs=count), history(), 0)
    assert isinstance(token.logprob, expected[0] or type(None))
    assert len(token.top) == expected[1]


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-9])
def test_temperature_near_zero_is_greedy(temperature: float) -> None:
    logits = random_logits(5) + np.linspace(0, 0.1, VOCAB, dtype=np.float32)
    token = sample(ID, logits, Sampling(temperature=temperature, top_p=0.9), history(), 0)
    assert token.token == int(np.argmax(logits))


def test_very_high_temperature_is_even() -> None:
    _, probabilities = candidates(random_logits(5), Sampling(temperature=1e300))
    assert probabilities.tolist() == pytest.approx([1 / VOCAB] * VOCAB)


@pytest.mark.parametrize("size", [1e-320, 1e-40, 1e40, 1e308])
def test_finite_factors_of_any_size_are_followed(size: float) -> None:
    """A request may send them; they must not turn into NaN for whoever shares the step."""
    sampling = Sampling(
        repetition_penalty=size,
        presence_penalty=size,
        frequency_penalty=-size,
        logit_bias=((2, size), (2, size), (3, -size)),
    )
    token = sample(ID, random_logits(6), sampling, history((1, 2, 3), (3, 3, 4)), 0)
    assert 0 <= token.token < VOCAB


def test_bias_bans_and_forces_tokens() -> None:
    logits = random_logits(7)
    greedy = int(np.argmax(logits))
    banned = Sampling(temperature=0, logit_bias=((greedy, -1000.0),))
    forced = Sampling(logit_bias=((11, 1000.0),))
    assert sample(ID, logits, banned, history(), 0).token != greedy
    assert sample(ID, logits, forced, history(), 0).token == 11


def test_adjusting_leaves_the_logits_alone() -> None:
    logits = random_logits(8)
    before = logits.copy()
    sample(ID, logits, COMBINATIONS[-1], history((1,), (2,)), 0)
    assert np.array_equal(logits, before)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_refused(value: float, temperature: float) -> None:
    logits = random_logits(9)
    logits[17] = value
    with pytest.raises(NumericsError, match="sequence 1"):
        sample(ID, logits, Sampling(temperature=temperature), history(), 0)


@pytest.mark.parametrize("sampling", [PLAIN, *COMBINATIONS[::97], Sampling(seed=2**64 - 1)])
def test_possible_sampling_is_no_problem(sampling: Sampling) -> None:
    assert impossible(sampling, VOCAB) is None


@pytest.mark.parametrize("position", [0, 2, 5])
def test_history_counts_output_from_the_end_of_the_prompt(position: int) -> None:
    """Fed in two parts, cut before, inside and after the prompt."""
    tokens = (7, 7, 8, 9, 7, 9)
    made = TokenHistory(num_prompt_tokens=3)
    made.extend(tokens[:position], 0)
    made.extend(tokens[position:], position)
    assert made.output_counts == {9: 2, 7: 1}
    assert sorted(made.seen_ids().tolist()) == [7, 8, 9]
