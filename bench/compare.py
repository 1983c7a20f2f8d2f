"""Lamina beside llama.cpp on the same file, in turns: ratios of prefill and decode speed.

    python bench/compare.py FILE.gguf [--threads 2] [--rounds 5] [--prompt 256] [--tokens 32]
        [--sequences 1] [--activations f32|int8]

Needs `pip install -e .[bench]` (xllamacpp). In every round each side loads the file in a process
of its own, computes a random prompt to warm up, then another one, the same for both, and generates
greedily; llama.cpp runs as it comes: weights repacked, flash attention as it chooses. With
--sequences, that many prompts of eight tokens at once: the tokens of all of them per second. One
JSON object per run and one of ratios at the end: a shared machine drifts by a factor of two within
minutes, so only the ratios of runs that were neighbours mean something. Above 1 Lamina is faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

SEED = 20_261_201
SIDES = ("lamina", "llama.cpp")
BATCH_PROMPT = 8  # tokens of each prompt when there are several
Figures = dict[str, float]


def prompt_ids(length: int, vocab_size: int, index: int = 0) -> list[int]:
    """Random ids, the same for both sides."""
    import numpy as np

    random = np.random.default_rng(SEED + index)
    return [int(id) for id in random.integers(0, vocab_size, length)]


def batch_speed(
    args: argparse.Namespace, vocab_size: int, complete: Callable[[list[list[int]], int], None]
) -> Figures:
    """`complete(prompts, n)` generates n tokens to each of several prompts, which cancel out."""
    prompts = [prompt_ids(BATCH_PROMPT, vocab_size, index) for index in range(args.sequences)]

    def seconds(count: int) -> float:
        began = time.perf_counter()
        complete(prompts, count)
        return time.perf_counter() - began

    seconds(1)
    took = seconds(args.tokens + 1) - seconds(1)
    return {"decode_tokens_per_second": args.sequences * args.tokens / took}


def run_lamina(args: argparse.Namespace) -> Figures:
    """One prompt in this process's engine."""
    from engine.api import Sampling
    from engine.config import EngineConfig
    from engine.load import load_engine
    from engine.local import generate

    config = EngineConfig(
        model=args.model,
        threads=args.threads,
        activations=args.activations,
        kv_tokens=args.sequences * (args.prompt + args.tokens + 64),
        sequences_max=args.sequences,
    )
    engine = load_engine(config)

    def complete(prompts: list[list[int]], count: int) -> None:
        for _ in generate(engine, prompts, Sampling(temperature=0), max_tokens=count):
            pass

    vocab_size = engine.facts.vocab_size
    if args.sequences > 1:
        return batch_speed(args, vocab_size, complete)
    complete([prompt_ids(args.prompt, vocab_size, 1)], 2)
    prompt = prompt_ids(args.prompt, vocab_size)
    began = time.perf_counter()
    tokens = generate(engine, [prompt], Sampling(temperature=0), max_tokens=args.tokens)
    times = [time.perf_counter() for _ in tokens]
    return {
        "prefill_tokens_per_second": args.prompt / (times[0] - began),
        "decode_tokens_per_second": (len(times) - 1) / (times[-1] - times[0]),
    }


def run_llamacpp(args: argparse.Namespace) -> Figures:
    """One prompt in llama.cpp's server, as it times itself."""
    import xllamacpp

    from engine.gguf.reader import open_gguf

    with open_gguf(args.model) as file:
        vocab_size = file.tensors["token_embd.weight"].shape[1]
    params = xllamacpp.CommonParams()
    params.model.path = str(args.model)
    params.n_ctx = args.sequences * (args.prompt + args.tokens + 64)
    params.n_parallel, params.n_gpu_layers = args.sequences, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    server = xllamacpp.Server(params)

    def completion(prompt: list[int], count: int) -> dict[str, Any]:
        request = {"prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": True}
        answer: dict[str, Any] = server.handle_completions({**request, "cache_prompt": False})
        return answer

    def complete(prompts: list[list[int]], count: int) -> None:
        with ThreadPoolExecutor(args.sequences) as pool:
            list(pool.map(lambda prompt: completion(prompt, count), prompts))

    if args.sequences > 1:
        return batch_speed(args, vocab_size, complete)
    completion(prompt_ids(args.prompt, vocab_size, 1), 2)
    timings = completion(prompt_ids(args.prompt, vocab_size), args.tokens)["timings"]
    return {
        "prefill_tokens_per_second": timings["prompt_per_second"],
        "decode_tokens_per_second": timings["predicted_per_second"],
    }


def measured(side: str, argv: list[str], *, quiet: bool = False) -> Figures:
    """The figures of a process of its own. Raises CalledProcessError if it fails."""
    done = subprocess.run(
        [sys.executable, __file__, *argv, "--side", side],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def each_ratio(rounds: list[dict[str, Figures]], figure: str) -> list[float]:
    """Ours to llama.cpp's, per round."""
    return [one["lamina"][figure] / one["llama.cpp"][figure] for one in rounds]


def ratios(rounds: list[dict[str, Figures]]) -> dict[str, dict[str, float]]:
    """Per figure: the least, middle and largest of the rounds' ratios of ours to llama.cpp's."""
    summary = {}
    for name in rounds[0]["lamina"]:
        each = each_ratio(rounds, name)
        spread = {"min": min(each), "median": statistics.median(each), "max": max(each)}
        summary[name.removesuffix("_tokens_per_second")] = {
            key: round(value, 3) for key, value in spread.items()
        }
    return summary


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=32, help="tokens to generate")
    parser.add_argument("--sequences", type=int, default=1, help="prompts at once")
    parser.add_argument("--activations", choices=("f32", "int8"), default="int8")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side is not None:
        print(json.dumps((run_lamina if args.side == "lamina" else run_llamacpp)(args)))
        return 0
    rounds = []
    for index in range(args.rounds):
        one = {side: measured(side, sys.argv[1:]) for side in SIDES}
        rounds.append(one)
        for side, figures in one.items():
            print(json.dumps({"round": index, "side": side, **figures}), flush=True)
    print(json.dumps({"model": args.model.name, "ratio": ratios(rounds)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
