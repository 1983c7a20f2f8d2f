"""`lamina logits MODEL --tokens T.json --out O.npz`: logits at every position of given prompts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from services.cli.arguments import add_engine_flags, engine_config, read_prompts


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `lamina logits`."""
    parser = subparsers.add_parser("logits", help="logits of given tokens, as a NumPy archive")
    add_engine_flags(parser)
    parser.add_argument("--tokens", type=Path, required=True, help='{"prompts": [[ids…], …]}')
    parser.add_argument("--out", type=Path, required=True, help="logits0, logits1, … float32")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write `logitsN` (tokens, vocab) float32 for prompt N."""
    import numpy as np

    from engine.errors import CapacityError
    from engine.load import load_engine
    from engine.local import all_logits, check_prompt

    prompts = read_prompts(args.tokens)
    engine = load_engine(engine_config(args))
    try:
        for prompt in prompts:
            check_prompt(engine, prompt, 0)
        arrays: dict[str, Any] = {
            f"logits{n}": all_logits(engine, prompt) for n, prompt in enumerate(prompts)
        }
    finally:
        engine.close()
    try:
        with args.out.open("wb") as file:
            np.savez(file, **arrays)
    except OSError as error:
        raise CapacityError(f"{args.out}: {error.strerror}") from None
    return 0
