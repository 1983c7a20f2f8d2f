"""`lamina generate MODEL`: text in this process, without any service."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from services.cli.arguments import add_engine_flags, engine_config, read_prompts

if TYPE_CHECKING:
    from engine.text.load import TextSide


@dataclass(slots=True)
class _Output:
    """What one prompt became."""

    prompt_tokens: int
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `lamina generate`."""
    parser = subparsers.add_parser("generate", help="generate text from a prompt")
    add_engine_flags(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", help="text to continue, or with --chat to answer")
    source.add_argument("--tokens-json", type=Path, help='{"prompts": [[ids…], …]}')
    parser.add_argument("--chat", action="store_true", help="use the model's chat template")
    parser.add_argument("--max-tokens", type=int, default=128, help="per prompt (%(default)s)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: greedy (%(default)s)")
    parser.add_argument("--top-k", type=int, default=0, help="0: off")
    parser.add_argument("--top-p", type=float, default=1.0, help="1: off")
    parser.add_argument("--min-p", type=float, default=0.0, help="0: off")
    parser.add_argument("--seed", type=int, help="default: another one every time")
    parser.add_argument("--json", action="store_true", help="one JSON object per prompt")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Generate; text streams to stdout unless --json."""
    from engine.api import Sampling
    from engine.errors import PromptError
    from engine.load import load_engine
    from engine.local import generate
    from engine.text.detokenizer import Detokenizer
    from engine.text.load import load_text

    _check_flags(args)
    text = load_text(args.model)
    prompts = _prompts(args, text)
    if args.chat and text.chat_template is None:
        raise PromptError(f"{args.model}: no chat template in this file; leave out --chat")
    sampling = Sampling(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        seed=args.seed if args.seed is not None else secrets.randbits(63),
    )
    outputs = [_Output(prompt_tokens=len(prompt)) for prompt in prompts]
    writers = [Detokenizer(text.tokenizer) for _ in prompts]
    engine = load_engine(engine_config(args))
    began = time.perf_counter()
    try:
        for each in generate(
            *(engine, prompts, sampling),
            max_tokens=args.max_tokens,
            stop_tokens=text.tokenizer.stop_ids,
        ):
            output, writer = outputs[each.index], writers[each.index]
            output.tokens.append(each.token.token)
            piece = writer.push(each.token.token)
            if each.finish:
                piece += writer.finish()
                output.finish_reason = each.finish
            output.text += piece
            if not args.json and len(prompts) == 1:
                sys.stdout.write(piece)
                sys.stdout.flush()
    finally:
        engine.close()
    _report(args, outputs, time.perf_counter() - began)
    return 0


def _check_flags(args: argparse.Namespace) -> None:
    from engine.errors import PromptError

    if args.chat and args.tokens_json is not None:
        raise PromptError("--chat goes with --prompt; ids in --tokens-json are taken as they are")
    wrong = {
        "--max-tokens": args.max_tokens < 1,
        "--temperature": not 0 <= args.temperature < float("inf"),
        "--top-k": args.top_k < 0,
        "--top-p": not 0 < args.top_p <= 1,
        "--min-p": not 0 <= args.min_p <= 1,
        "--seed": args.seed is not None and not 0 <= args.seed < 1 << 64,
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            value = getattr(args, name.removeprefix("--").replace("-", "_"))
            raise PromptError(f"{name} {value} makes no sense")


def _prompts(args: argparse.Namespace, text: TextSide) -> list[list[int]]:
    if args.tokens_json is not None:
        return read_prompts(args.tokens_json)
    if args.chat and text.chat_template is not None:
        prompt = text.chat_template.render([{"role": "user", "content": args.prompt}])
        return [text.tokenizer.encode(prompt, parse_special=True)]
    return [text.tokenizer.encode(args.prompt, add_special=True, parse_special=True)]


def _report(args: argparse.Namespace, outputs: list[_Output], seconds: float) -> None:
    total = sum(len(output.tokens) for output in outputs)
    for output in outputs:
        if args.json:
            record = {
                "text": output.text,
                "tokens": output.tokens,
                "finish_reason": output.finish_reason,
                "prompt_tokens": output.prompt_tokens,
                "completion_tokens": len(output.tokens),
                "tokens_per_second": round(total / seconds, 2),
            }
            sys.stdout.write(json.dumps(record) + "\n")
        elif len(outputs) > 1:
            sys.stdout.write(output.text + "\n")
    if not args.json and len(outputs) == 1:
        sys.stdout.write("\n")
