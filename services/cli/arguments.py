"""Flags that several subcommands share, and the files that they read."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.config import EngineConfig
from engine.errors import PromptError
from services.common.config import count_or_auto


def add_engine_flags(parser: argparse.ArgumentParser, *, activations: str = "f32") -> None:
    """The model and how to compute; `activations` is the default of that flag."""
    parser.add_argument("model", type=Path, help="GGUF file (any shard of a split set)")
    parser.add_argument(
        "--ngram-table", type=Path, help="file of the n-gram table, if it is not the model's"
    )
    parser.add_argument("--mtp", type=Path, help="file of the draft (MTP) block, likewise")
    parser.add_argument(
        "--experts-per-token",
        type=count_or_auto,
        default=0,
        help="experts a token uses; fewer is faster and approximate; 0: as the model says",
    )
    parser.add_argument(
        "--threads", type=count_or_auto, default=0, help="compute threads; 0: all cores"
    )
    parser.add_argument(
        "--activations",
        choices=("f32", "int8"),
        default=activations,
        help="f32 (exact) or int8 (fast; %(default)s)",
    )
    parser.add_argument(
        "--expert-trace",
        type=Path,
        help="append which experts each step used to this file, for lamina policy-lab",
    )
    parser.add_argument(
        "--kv-tokens", type=count_or_auto, default=0, help="positions of KV cache; 0: auto"
    )


def engine_arguments(args: argparse.Namespace) -> list[str]:
    """The flags above but the model, written out again for another process."""
    values = {
        "--ngram-table": args.ngram_table,
        "--mtp": args.mtp,
        "--experts-per-token": args.experts_per_token,
        "--threads": args.threads,
        "--activations": args.activations,
        "--kv-tokens": args.kv_tokens,
        "--expert-trace": args.expert_trace,
    }
    given = {flag: str(value) for flag, value in values.items() if value is not None}
    return [word for flag_and_value in given.items() for word in flag_and_value]


def engine_config(args: argparse.Namespace, *, sequences_max: int = 0) -> EngineConfig:
    """The engine's configuration from the flags above."""
    return EngineConfig(
        model=args.model,
        ngram_table=args.ngram_table,
        draft_model=args.mtp,
        experts_per_token=args.experts_per_token,
        threads=args.threads,
        activations=args.activations,
        kv_tokens=args.kv_tokens,
        sequences_max=sequences_max,
        expert_trace=args.expert_trace,
    )


def read_prompts(path: Path) -> list[list[int]]:
    """The token ids in `{"prompts": [[ids…], …]}`. Raises PromptError naming file and reason."""
    try:
        value = json.loads(path.read_text())
    except OSError as error:
        raise PromptError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise PromptError(f"{path}: not JSON: {error}") from None
    prompts = value.get("prompts") if isinstance(value, dict) else None
    if not isinstance(prompts, list) or not prompts:
        raise PromptError(f'{path}: {{"prompts": [[ids, …], …]}} expected')
    for index, prompt in enumerate(prompts):
        if not isinstance(prompt, list) or not all(type(token) is int for token in prompt):
            raise PromptError(f"{path}: prompt {index} is not a list of token ids")
    return prompts


def numbers(name: str, text: str) -> list[int]:
    """A list of whole numbers of at least 1, separated by commas."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < 1:
        raise PromptError(f"{name} {text!r} is not a list of whole numbers")
    return values


def emit(record: dict[str, object], *, as_json: bool) -> None:
    """Print one result on one line."""
    line = json.dumps(record) if as_json else "  ".join(f"{k} {v}" for k, v in record.items())
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
