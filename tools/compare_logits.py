"""How far two runs of `lamina logits` are apart: python tools/compare_logits.py EXACT.npz OTHER.npz

Prints one JSON object: rms and largest difference of a logit, the logits' standard deviation, and
over all positions the mean Kullback-Leibler divergence (nats) and the share of best tokens that
changed.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def log_softmax(logits: Doubles) -> Doubles:
    """(tokens, vocab)."""
    shifted: Doubles = logits - logits.max(1, keepdims=True)
    total: Doubles = np.log(np.exp(shifted).sum(1, keepdims=True))
    return shifted - total


def read(path: str) -> Doubles:
    """All prompts' logits, one after another."""
    with np.load(path) as archive:
        return np.concatenate([archive[f"logits{i}"] for i in range(len(archive))]).astype(float)


def compare(exact: Doubles, other: Doubles) -> dict[str, float]:
    """See the module."""
    p, q = log_softmax(exact), log_softmax(other)
    difference = other - exact
    return {
        "positions": len(exact),
        "rms": round(float(np.sqrt(np.square(difference).mean())), 6),
        "largest": round(float(np.abs(difference).max()), 6),
        "logits_std": round(float(exact.std()), 3),
        "kl_nats": round(float((np.exp(p) * (p - q)).sum(1).mean()), 8),
        "best_changed": round(float((exact.argmax(1) != other.argmax(1)).mean()), 5),
    }


def main() -> int:
    exact, other = (read(path) for path in sys.argv[1:3])
    if exact.shape != other.shape:
        sys.exit(f"{sys.argv[1]} has shape {exact.shape}, {sys.argv[2]} {other.shape}")
    sys.stdout.write(json.dumps(compare(exact, other)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
