"""`lamina bench decode --contexts LIST`: what a token costs at the end of long contexts.

Computing a context of 65,536 positions takes longer than anybody waits for a figure, so its state
is random numbers: the work of a step does not depend on them. Sequences of all lengths take turns,
one step each, so that a machine whose speed drifts treats them alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING

from engine.api import Sampling, SequenceId, SequenceStart, StepEntry, StepRequest
from engine.errors import CapacityError, PromptError
from services.cli.arguments import emit, engine_config, numbers
from services.cli.bench_record import WARM_UP_STEPS, record

if TYPE_CHECKING:
    from engine.step import ModelEngine


def run(args: argparse.Namespace) -> int:
    """One record per length; `index_seconds` is the part that grows with the context."""
    from engine.load import load_engine

    lengths = numbers("--contexts", args.contexts)
    engine = load_engine(engine_config(args, sequences_max=len(lengths)))
    try:
        _open(engine, lengths, WARM_UP_STEPS + args.steps)
        timed = _take_turns(engine, lengths, args.steps)
    finally:
        engine.close()
    for length, steps in zip(lengths, timed, strict=True):
        whole = [seconds for seconds, _, _ in steps]
        index = statistics.median(seconds for _, seconds, _ in steps)
        rest = statistics.median(seconds - scan for seconds, scan, _ in steps)
        made = record(args, "decode", 1, 1, whole, statistics.mean(read for *_, read in steps))
        more = {"context": length, "index_seconds": round(index, 6), "rest_seconds": round(rest, 6)}
        emit(made | more, as_json=args.json)
    return 0


def _open(engine: ModelEngine, lengths: list[int], steps: int) -> None:
    """Sequence number i pretends to be lengths[i] positions long, with pages for what follows."""
    facts, first = engine.facts, 0
    if max(lengths) + steps > facts.context_tokens_max:
        raise PromptError(
            f"--contexts {max(lengths)} and {steps} steps exceed {facts.context_tokens_max} "
            "positions; raise --kv-tokens as far as the model's context goes"
        )
    for index, length in enumerate(lengths):
        pages = tuple(range(first, first := first + -(-(length + steps) // facts.page_tokens)))
        if first > facts.num_pages:
            raise CapacityError(
                f"--contexts: {first * facts.page_tokens} positions of KV cache needed, "
                f"{facts.num_pages * facts.page_tokens} are there; raise --kv-tokens"
            )
        start = SequenceStart(
            sequence=SequenceId(index), sampling=Sampling(temperature=0), num_prompt_tokens=1
        )
        engine.step(StepRequest(step=index, starts=(start,)))
        engine.pretend(start.sequence, length, pages)


def _take_turns(
    engine: ModelEngine, lengths: list[int], steps: int
) -> list[list[tuple[float, float, int]]]:
    """By length: seconds of each step, of its index scans, and the weight bytes it read."""
    timed: list[list[tuple[float, float, int]]] = [[] for _ in lengths]
    for step in range(WARM_UP_STEPS + steps):
        for index, length in enumerate(lengths):
            entry = StepEntry(
                sequence=SequenceId(index),
                tokens=((7919 * step) % engine.facts.vocab_size,),
                position=length + step,
            )
            began = time.perf_counter()
            stats = engine.step(StepRequest(step=step, entries=(entry,))).stats
            if step >= WARM_UP_STEPS:
                seconds = time.perf_counter() - began
                timed[index].append((seconds, stats.index_seconds, stats.weight_bytes_read))
    return timed
