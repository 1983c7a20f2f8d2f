"""From logits to a token, for one sequence at a time, so that its result never depends on others.

Order: penalties and logit bias, then greedy choice, or temperature, top-k, min-p and top-p, then
one draw. The draw of output token i uses random bits that depend on (seed, i) alone: a sequence
that was preempted and computed again goes on as if nothing had happened.
Source: the penalties are those of the OpenAI API (presence, frequency; over the output) and CTRL
(repetition; arXiv 1909.05858; over prompt and output); min-p is arXiv 2407.01082.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.api import SampledToken, Sampling, SequenceId
from engine.errors import NumericsError
from engine.sequence import TokenHistory

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ids = NDArray[np.int64]
LOGIT_MAX = 1e30  # larger ones, which penalties and bias can make, are cut to this size
NUCLEUS_FIRST = 1024  # tokens that are sorted at first for top-p; more only if they do not reach it
NUCLEUS_GROWTH = 8


def sample(
    sequence: SequenceId,
    logits: Floats,
    sampling: Sampling,
    history: TokenHistory,
    output_index: int,
) -> SampledToken:
    """logits (vocab,) -> the next token, with log probabilities if they were asked for.

    Raises NumericsError for logits that are not finite.
    """
    if not (math.isfinite(logits.min()) and math.isfinite(logits.max())):  # NaN wins in both
        raise NumericsError(f"sequence {sequence}: the model gave logits that are not finite")
    adjusted = adjust(logits, sampling, history)
    if sampling.temperature == 0:
        token = int(np.argmax(adjusted))  # the first of equals: the lowest id
    else:
        ids, probabilities = candidates(adjusted, sampling)
        token = draw(ids, probabilities, sampling.seed, output_index)
    if sampling.logprobs is None:
        return SampledToken(sequence=sequence, token=token)
    logprobs = log_softmax(logits)
    top = best(logprobs, sampling.logprobs)
    return SampledToken(
        sequence=sequence,
        token=token,
        logprob=float(logprobs[token]),
        top=tuple((int(id), float(logprobs[id])) for id in top),
    )


def adjust(logits: Floats, sampling: Sampling, history: TokenHistory) -> Floats | Doubles:
    """Penalties and logit bias, in double; `logits` itself when there are none."""
    repetition = sampling.repetition_penalty != 1.0 and bool(history.seen)
    additive = bool(sampling.presence_penalty or sampling.frequency_penalty)
    if not (repetition or sampling.logit_bias or (additive and history.output_counts)):
        return logits
    out = logits.astype(np.float64)
    # Finite factors of any size are allowed: what overflows is cut, so that it still compares.
    with np.errstate(over="ignore"):
        if repetition:
            seen = history.seen_ids()
            penalty = sampling.repetition_penalty
            out[seen] = np.where(out[seen] > 0, out[seen] / penalty, out[seen] * penalty)
            out.clip(-LOGIT_MAX, LOGIT_MAX, out=out)
        for token, count in history.output_counts.items() if additive else ():
            out[token] -= sampling.presence_penalty + sampling.frequency_penalty * count
        out.clip(-LOGIT_MAX, LOGIT_MAX, out=out)
        for token, bias in sampling.logit_bias:
            out[token] += bias
    return out.clip(-LOGIT_MAX, LOGIT_MAX, out=out)


def candidates(logits: Floats | Doubles, sampling: Sampling) -> tuple[Ids, Doubles]:
    """The tokens that may be drawn, in a fixed order, and their probabilities."""
    limited = 0 < sampling.top_k < logits.size
    ids = best(logits, sampling.top_k) if limited else np.arange(logits.size)
    below = logits[ids].astype(np.float64) - float(logits.max())
    with np.errstate(over="ignore"):  # a temperature near 0 leaves the likeliest alone
        weights = np.exp(below / sampling.temperature)
    if sampling.min_p > 0:
        kept = weights >= sampling.min_p  # the likeliest has weight 1
        ids, weights = ids[kept], weights[kept]
    if sampling.top_p < 1:
        kept_first = nucleus(weights, sampling.top_p)
        ids, weights = ids[kept_first], weights[kept_first]
    return ids, weights / weights.sum()


def nucleus(weights: Doubles, top_p: float) -> Ids:
    """Indices of the largest weights, largest first, that together first reach top_p of the sum.

    At least one. Ties go to the lower index. A vocabulary is not sorted as a whole: the nucleus is
    looked for among its first few.
    """
    target = top_p * float(weights.sum())
    count = NUCLEUS_FIRST
    while True:
        first = best(weights, count)
        before = np.cumsum(weights[first]) - weights[first]
        if before[-1] >= target or count >= weights.size:
            return first[: max(1, int(np.searchsorted(before, target)))]
        count *= NUCLEUS_GROWTH


def draw(ids: Ids, probabilities: Doubles, seed: int, output_index: int) -> int:
    """One token by inverse transform of a uniform number made from (seed, output_index)."""
    generator = np.random.Generator(np.random.Philox(key=seed, counter=output_index))
    at = int(np.searchsorted(np.cumsum(probabilities), generator.random(), side="right"))
    return int(ids[min(at, ids.size - 1)])


def best(values: Floats | Doubles, count: int) -> Ids:
    """Indices of the `count` largest values, largest first, ties to the lower index."""
    count = min(count, values.size)
    if count == 0:
        return np.empty(0, np.int64)
    # Partition finds the threshold; ties at it are settled by index, not by the partition's whim.
    threshold = np.partition(values, values.size - count)[values.size - count]
    above = np.flatnonzero(values > threshold)
    level = np.flatnonzero(values == threshold)[: count - above.size]
    chosen = np.concatenate([above, level])
    return chosen[np.lexsort((chosen, -values[chosen]))]


def log_softmax(logits: Floats) -> Doubles:
    """Natural log probabilities, in double."""
    shifted = logits.astype(np.float64) - float(logits.max())
    return shifted - float(np.log(np.exp(shifted).sum()))
