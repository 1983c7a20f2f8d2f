"""`lamina bench decode|prefill|serve MODEL`: figures of this machine, one JSON object per run.

Decode: every sequence of a batch generates one token per step. Prefill: one prompt is computed in
chunks of the engine's step size. Prompts come from a fixed seed, each sequence its own, so that
a batch does not share experts more than real text would by accident of being equal.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from services.cli import bench_context, bench_serve
from services.cli.arguments import add_engine_flags, emit, engine_config, numbers
from services.cli.bench_record import WARM_UP_STEPS, record
from services.common.config import count

if TYPE_CHECKING:
    from engine.step import ModelEngine

PROMPT_SEED = 20_261_201
PREFILL_LENGTHS = (512, 2048)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `lamina bench`."""
    parser = subparsers.add_parser("bench", help="measure decode, prefill or serving")
    kinds = parser.add_subparsers(dest="bench", required=True, metavar="KIND")
    decode = kinds.add_parser("decode", help="tokens per second while generating")
    add_engine_flags(decode, activations="int8")
    decode.add_argument("--batch", default="1,2,4,8,16", help="sequences, a list (%(default)s)")
    decode.add_argument("--context", type=count, default=64, help="prompt tokens (%(default)s)")
    decode.add_argument(
        "--contexts",
        help="instead of batches: one sequence at each of these lengths, whose state is random",
    )
    decode.add_argument("--steps", type=count, default=32, help="steps measured (%(default)s)")
    decode.add_argument("--json", action="store_true", help="one JSON object per line")
    decode.set_defaults(run=run_decode)
    prefill = kinds.add_parser("prefill", help="tokens per second while reading a prompt")
    add_engine_flags(prefill, activations="int8")
    prefill.add_argument("--tokens", help="lengths, a list (512,2048 as far as the context goes)")
    prefill.add_argument("--repeat", type=count, default=3, help="runs per length (%(default)s)")
    prefill.add_argument("--json", action="store_true", help="one JSON object per line")
    prefill.set_defaults(run=run_prefill)
    bench_serve.add_parser(kinds)


def run_decode(args: argparse.Namespace) -> int:
    """One record per batch size."""
    from engine.load import load_engine

    if args.contexts is not None:
        return bench_context.run(args)
    batches = numbers("--batch", args.batch)
    engine = load_engine(engine_config(args, sequences_max=max(batches)))
    try:
        for batch in batches:
            seconds, bytes_read = _decode(engine, batch, args.context, args.steps)
            emit(record(args, "decode", batch, batch, seconds, bytes_read), as_json=args.json)
    finally:
        engine.close()
    return 0


def run_prefill(args: argparse.Namespace) -> int:
    """One record per prompt length."""
    from engine.load import load_engine
    from engine.local import check_prompt

    asked = numbers("--tokens", args.tokens) if args.tokens is not None else None
    engine = load_engine(engine_config(args))
    room = engine.facts.context_tokens_max - 1  # the first token is generated too
    lengths = asked or sorted({min(length, room) for length in PREFILL_LENGTHS})
    try:
        for length in lengths:
            prompt = _prompt(engine, length, 0)
            check_prompt(engine, prompt, 1)
            runs = [_prefill(engine, prompt) for _ in range(1 + args.repeat)][1:]
            seconds, bytes_read = [s for s, _ in runs], runs[0][1]
            made = record(args, "prefill", 1, length, seconds, bytes_read)
            emit(made | {"context": length}, as_json=args.json)
    finally:
        engine.close()
    return 0


def _prompt(engine: ModelEngine, length: int, index: int) -> list[int]:
    import numpy as np

    rng = np.random.default_rng([PROMPT_SEED, index])
    return [int(token) for token in rng.integers(0, engine.facts.vocab_size, length)]


def _decode(engine: ModelEngine, batch: int, context: int, steps: int) -> tuple[list[float], float]:
    """Seconds of each step, and the weight bytes a step read, mean."""
    from engine.api import Sampling
    from engine.local import Driver

    prompts = [_prompt(engine, context, index) for index in range(batch)]
    generated = _generated(engine, batch, context, steps)
    driver = Driver(engine)
    runs = [driver.add(prompt, Sampling(temperature=0), generated) for prompt in prompts]
    try:
        while any(run.computed < len(run.tokens) - 1 or len(run.tokens) == context for run in runs):
            driver.step()
        seconds, bytes_read = [], 0
        for index in range(WARM_UP_STEPS + steps):
            began = time.perf_counter()
            stats = driver.step()
            if index >= WARM_UP_STEPS:
                seconds.append(time.perf_counter() - began)
                bytes_read += stats.weight_bytes_read
        return seconds, bytes_read / steps
    finally:
        engine.reset()


def _generated(engine: ModelEngine, batch: int, context: int, steps: int) -> int:
    """Tokens that the first sequence generates: it does not wait while others are prefilled.

    Raises PromptError or CapacityError if the batch cannot run as a whole.
    """
    from engine.errors import CapacityError, PromptError
    from engine.local import check_prompt

    facts = engine.facts
    if batch >= facts.step_tokens_max:
        raise PromptError(f"--batch {batch}: a step has {facts.step_tokens_max} tokens at most")
    prefill_steps = -(-batch * context // (facts.step_tokens_max - batch))
    generated = prefill_steps + WARM_UP_STEPS + steps + 1
    check_prompt(engine, _prompt(engine, context, 0), generated)
    pages = batch * -(-(context + generated) // facts.page_tokens)
    if pages > facts.num_pages:
        have, need = (n * facts.page_tokens for n in (facts.num_pages, pages))
        raise CapacityError(
            f"--batch {batch}: {need} positions of KV cache needed, {have} are there; "
            "raise --kv-tokens"
        )
    return generated


def _prefill(engine: ModelEngine, prompt: list[int]) -> tuple[float, float]:
    """Seconds to the first token, and the weight bytes read."""
    from engine.api import Sampling
    from engine.local import Driver

    driver = Driver(engine)
    run = driver.add(prompt, Sampling(temperature=0), 1)
    began, bytes_read = time.perf_counter(), 0
    try:
        while len(run.tokens) == len(prompt):
            bytes_read += driver.step().weight_bytes_read
        return time.perf_counter() - began, bytes_read
    finally:
        engine.reset()
