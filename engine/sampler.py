"""From logits to a token, for one sequence at a time, so that its result never depends on others.

Order: logit bias and penalties, then greedy choice, or temperature, top-k, min-p and top-p, then
one draw. The draw of output token i uses random bits that depend on (seed, i) alone: a sequence
that was preempted and computed again goes on as if nothing had happened.
Source: the penalties are those of the OpenAI API (presence, frequency; over the output) and CTRL
(repetition; arXiv 1909.05858; over prompt and output); min-p is arXiv 2407.01082.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.api import SampledToken, Sampling, SequenceId
from engine.sequence import TokenHistory

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ids = NDArray[np.int64]


def sample(
    sequence: SequenceId,
    logits: Floats,
    sampling: Sampling,
    history: TokenHistory,
    output_index: int,
) -> SampledToken:
    """logits (vocab,) -> the next token, with log probabilities if they were asked for."""
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


def adjust(logits: Floats, sampling: Sampling, history: TokenHistory) -> Floats:
    """Apply logit bias and penalties to a copy, or return `logits` itself when there are none."""
    repetition = sampling.repetition_penalty != 1.0 and bool(history.seen)
    additive = bool(sampling.presence_penalty or sampling.frequency_penalty)
    if not (repetition or sampling.logit_bias or (additive and history.output_counts)):
        return logits
    out = logits.copy()
    if repetition:
        seen = history.seen_ids()
        penalty = np.float32(sampling.repetition_penalty)
        out[seen] = np.where(out[seen] > 0, out[seen] / penalty, out[seen] * penalty)
    for token, count in history.output_counts.items() if additive else ():
        out[token] -= sampling.presence_penalty + sampling.frequency_penalty * count
    for token, bias in sampling.logit_bias:
        out[token] += bias
    return out


def candidates(logits: Floats, sampling: Sampling) -> tuple[Ids, Doubles]:
    """The tokens that may be drawn, likeliest first (ties: lowest id), and their probabilities."""
    top_k = sampling.top_k if 0 < sampling.top_k < logits.size else logits.size
    ids = best(logits, top_k) if top_k < logits.size else np.arange(logits.size)
    scaled = logits[ids].astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled.max())
    if sampling.min_p > 0:
        kept = weights >= sampling.min_p  # the likeliest has weight 1
        ids, weights = ids[kept], weights[kept]
    order = np.lexsort((ids, -weights))
    ids, weights = ids[order], weights[order]
    probabilities = weights / weights.sum()
    if sampling.top_p < 1:
        before = np.cumsum(probabilities) - probabilities
        count = max(1, int(np.searchsorted(before, sampling.top_p)))
        ids, probabilities = ids[:count], probabilities[:count] / probabilities[:count].sum()
    return ids, probabilities


def draw(ids: Ids, probabilities: Doubles, seed: int, output_index: int) -> int:
    """One token by inverse transform of a uniform number made from (seed, output_index)."""
    generator = np.random.Generator(np.random.Philox(key=seed, counter=output_index))
    at = int(np.searchsorted(np.cumsum(probabilities), generator.random(), side="right"))
    return int(ids[min(at, ids.size - 1)])


def best(values: NDArray[np.floating], count: int) -> Ids:
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
