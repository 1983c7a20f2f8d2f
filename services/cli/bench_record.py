"""What a line of `lamina bench` says of a run in this process."""

from __future__ import annotations

import argparse
import statistics

WARM_UP_STEPS = 3  # before steps are timed


def record(
    args: argparse.Namespace,
    bench: str,
    batch: int,
    tokens: int,
    seconds: list[float],
    bytes_read: float,
) -> dict[str, object]:
    """`tokens` were computed in each of `seconds`."""
    from engine.kernels import ops

    middle = statistics.median(seconds)
    return {
        "bench": bench,
        "model": args.model.name,
        "activations": args.activations,
        "threads": ops.num_threads(),
        "batch": batch,
        "tokens_per_second": round(tokens / middle, 2),
        "bytes_per_token": int(bytes_read / tokens),
        "seconds_min": round(min(seconds), 6),
        "seconds_median": round(middle, 6),
        "seconds_max": round(max(seconds), 6),
    }
