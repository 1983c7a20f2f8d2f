"""Speed of every native op: checked against its reference, then timed; one JSON line per case.

    python bench/kernels.py [--threads N] [--variant NAME] [--only TEXT] [--seconds S]

Ops that are bound by memory report GB/s of the bytes they must read and write, beside the read
bandwidth of this machine with the same number of threads; ops that compute report GOP/s, counting
a multiplication and an addition as two. A figure is the best of several repetitions: on a shared
machine everything else can only add time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("", "tests")]

from kernel_cases import dense, index, recurrent, streams
from kernel_cases.case import BUFFER_BYTES, Case

from engine.gguf.types import GGMLType
from engine.kernels import ops
from engine.kernels.ops import QuantMatrix

REPETITIONS_LEAST = 3


CASES = (*dense.CASES, *index.CASES, *streams.CASES, *recurrent.CASES)


def best_seconds(run: Callable[[], object], seconds: float) -> float:
    """The shortest of the runs that fit into `seconds`, after one to warm up."""
    run()
    best, end, done = float("inf"), time.perf_counter() + seconds, 0
    while done < REPETITIONS_LEAST or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best, done = min(best, time.perf_counter() - start), done + 1
    return best


def read_gigabytes_per_second(seconds: float) -> float:
    """Reading a buffer that no cache holds, with the threads of the pool: what linear can hope for.

    F32 weights against one token are read once and need no decoding, so the op itself is the probe.
    """
    w = QuantMatrix(
        data=np.ones(BUFFER_BYTES, np.uint8), type=GGMLType.F32, rows=BUFFER_BYTES // 16384,
        cols=4096,
    )  # fmt: skip
    x = torch.ones(1, 4096)
    return BUFFER_BYTES / best_seconds(lambda: ops.linear(x, w), seconds) / 1e9


def check(case: Case) -> None:
    """Refuse to time something that is wrong."""
    actual, expected = case.actual(), case.expected()
    most = float(expected.abs().max())
    error = float((actual - expected).abs().max())
    if not error <= case.tolerance * most:
        raise SystemExit(f"{case.op} {case.name}: off by {error:.3g} of {most:.3g}")


def measure(case: Case, seconds: float, read: float) -> dict[str, object]:
    """One line of the result."""
    check(case)
    took = best_seconds(case.run, seconds)
    record: dict[str, object] = {
        "op": case.op,
        "case": case.name,
        "microseconds": round(took * 1e6, 1),
        "gigabytes_per_second": round(case.num_bytes / took / 1e9, 2),
        "read_gigabytes_per_second": round(read, 2),
        "variant": ops.variant(),
        "threads": ops.num_threads(),
    }
    if case.operations:
        record["gigaops_per_second"] = round(case.operations / took / 1e9, 2)
    return record


def main() -> int:
    parser = argparse.ArgumentParser(description="Time every native op; JSON lines on stdout.")
    parser.add_argument("--threads", type=int, default=ops.num_threads())
    parser.add_argument("--variant", choices=ops.variants(), default=ops.variant())
    parser.add_argument("--only", default="", help="cases whose op and name contain this text")
    parser.add_argument("--seconds", type=float, default=0.2, help="time given to a case")
    args = parser.parse_args()
    ops.set_num_threads(args.threads)
    ops.set_variant(args.variant)
    read = read_gigabytes_per_second(args.seconds)
    for cases in CASES:
        for case in cases():
            if args.only in f"{case.op} {case.name}":
                print(json.dumps(measure(case, args.seconds, read)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
