"""`lamina policy-lab TRACE`: what cache policies would have hit in recorded steps.

Every policy is replayed step by step over caches of several sizes, beside Belady's choice, which
knows the future. The trace is what `--expert-trace FILE` of the other commands recorded.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import PromptError, TraceError
from services.common.config import count

if TYPE_CHECKING:
    from engine.experts.policy import Keys
    from engine.experts.replay import Limits, Replayed
    from engine.experts.trace import TraceShape

SHARES = "4,8,12.5,25,50"
OPTIMUM = "belady"
Record = dict[str, object]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `lamina policy-lab`."""
    parser = subparsers.add_parser("policy-lab", help="replay a routing trace over cache policies")
    parser.add_argument("trace", type=Path, help="file that --expert-trace wrote")
    parser.add_argument("--shares", default=SHARES, help="slots, %% of all experts (%(default)s)")
    parser.add_argument(
        "--steps", choices=("decode", "prefill", "all"), default="all", help="(%(default)s)"
    )
    parser.add_argument("--promotions", type=count, help="experts that may take a slot per round")
    parser.add_argument("--every", type=count, default=1, help="steps of a round (%(default)s)")
    parser.add_argument("--dwell", type=int, default=0, help="steps an expert keeps its slot")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """A table, or a record per policy and share."""
    import numpy as np

    from engine.experts.replay import Limits
    from engine.experts.trace import read_trace

    shares = _shares(args.shares)
    shape, steps = read_trace(args.trace)
    wanted = {"decode": (True,), "prefill": (False,), "all": (True, False)}[args.steps]
    kept = [np.flatnonzero(step.counts) for step in steps if step.decode in wanted]
    if not kept:
        raise TraceError(args.trace, "it has no steps" + _of_kind(args.steps))
    limits = Limits(
        round_steps=args.every,
        dwell_steps=args.dwell,
        **({} if args.promotions is None else {"promotions_max": args.promotions}),
    )
    records = list(_records(shape, kept, shares, limits))
    if args.json:
        sys.stdout.writelines(json.dumps(record) + "\n" for record in records)
    else:
        sys.stdout.write(_table(records, len(kept)) + "\n")
    return 0


def _of_kind(steps: str) -> str:
    return "" if steps == "all" else f" of kind {steps}"


def _shares(text: str) -> list[float]:
    """Per cent of all experts. Raises PromptError."""
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0 < share <= 100 for share in shares):
        raise PromptError(f"--shares {text!r} is not a list of percentages")
    return shares


def _records(
    shape: TraceShape, keys: list[Keys], shares: list[float], limits: Limits
) -> Iterator[Record]:
    import numpy as np

    from engine.experts.policy import POLICIES, Belady
    from engine.experts.replay import Limits, replay

    key_bytes = np.repeat(np.array(shape.expert_bytes), shape.experts)
    for share in shares:
        slots = int(key_bytes.size * share / 100)
        results = {
            name: replay(keys, make(key_bytes.size), slots, key_bytes, limits)
            for name, make in POLICIES.items()
        }
        best = replay(keys, Belady(key_bytes.size, keys), slots, key_bytes, Limits())
        for name, result in {**results, OPTIMUM: best}.items():
            yield {
                "share": share, "slots": slots, "policy": name,
                "hit_ratio": round(result.hit_ratio, 4),
                "gap_closed": _gap_closed(result, results["lru"], best),
                "promotions": result.promotions,
                "missed_bytes_per_step": result.missed_bytes // result.steps,
                "promoted_bytes_per_step": result.promoted_bytes // result.steps,
            }  # fmt: skip


def _gap_closed(result: Replayed, lru: Replayed, best: Replayed) -> float | None:
    """0 is as good as LRU, 1 as Belady; None where those two are equal."""
    gap = best.hit_ratio - lru.hit_ratio
    return round((result.hit_ratio - lru.hit_ratio) / gap, 4) if gap > 0 else None


def _table(records: list[Record], num_steps: int) -> str:
    names = list(dict.fromkeys(str(record["policy"]) for record in records))
    ratios = {(record["share"], record["policy"]): record for record in records}
    lines = [
        f"{num_steps} steps; hits among the experts of a step (gap from lru to belady closed)",
        "share   slots  " + "".join(f"{name:>16}" for name in names),
    ]
    for share in dict.fromkeys(record["share"] for record in records):
        row = [ratios[share, name] for name in names]
        cells = "".join(f"{_cell(record):>16}" for record in row)
        lines.append(f"{share:>5} % {row[0]['slots']:>6}  {cells}")
    return "\n".join(lines)


def _cell(record: Record) -> str:
    closed, ratio = record["gap_closed"], record["hit_ratio"]
    assert isinstance(ratio, float)
    if record["policy"] in ("lru", OPTIMUM) or closed is None:
        return f"{ratio:.1%}"
    assert isinstance(closed, float)
    return f"{ratio:.1%} ({closed:+.0%})"
