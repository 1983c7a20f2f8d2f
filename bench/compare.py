"""Lamina beside llama.cpp on the same file, in turns: ratios of prefill and decode speed.

    python bench/compare.py FILE.gguf [--threads 2] [--rounds 5] [--prompt 256] [--tokens 32]
        [--activations f32|int8]

Needs `pip install -e .[bench]` (xllamacpp). In every round each side loads the file in a process of
its own, computes the same random prompt and generates greedily; llama.cpp runs as it comes: weights
repacked, flash attention as it chooses. One JSON object per run and one of ratios at the end: a
shared machine drifts by a factor of two within minutes, so only the ratios of runs that were
neighbours mean something. Above 1 Lamina is faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

SEED = 20_261_201
SIDES = ("lamina", "llama.cpp")
FIGURES = ("prefill_tokens_per_second", "decode_tokens_per_second")
Figures = dict[str, float]


def prompt_ids(length: int, vocab_size: int) -> list[int]:
    """Random ids, the same for both sides."""
    import numpy as np

    return [int(id) for id in np.random.default_rng(SEED).integers(0, vocab_size, length)]


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
        kv_tokens=args.prompt + args.tokens + 64,
    )
    engine = load_engine(config)
    prompt = prompt_ids(args.prompt, engine.facts.vocab_size)
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
    params.n_ctx, params.n_parallel, params.n_gpu_layers = args.prompt + args.tokens + 64, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    request = {
        "prompt": prompt_ids(args.prompt, vocab_size),
        "n_predict": args.tokens,
        "temperature": 0,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    timings: dict[str, Any] = xllamacpp.Server(params).handle_completions(request)["timings"]
    return {
        "prefill_tokens_per_second": timings["prompt_per_second"],
        "decode_tokens_per_second": timings["predicted_per_second"],
    }


def measured(side: str, argv: list[str]) -> Figures:
    """The figures of a process of its own. Raises CalledProcessError if it fails."""
    done = subprocess.run(
        [sys.executable, __file__, *argv, "--side", side], check=True, stdout=subprocess.PIPE
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def ratios(rounds: list[dict[str, Figures]]) -> dict[str, dict[str, float]]:
    """Per figure: the least, middle and largest of the rounds' ratios of ours to llama.cpp's."""
    summary = {}
    for name in FIGURES:
        each = [one["lamina"][name] / one["llama.cpp"][name] for one in rounds]
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
