"""How a model routes text of different topics: the figures in models/README.md.

    python tools/measure_routing.py models/lamina-demo.gguf

Runs held-out conversations of the demo corpus through the engine and counts, per layer, how often
each expert is chosen. Reports the skew (share of the busiest experts) and the dependence on topic:
the Jensen-Shannon divergence between the expert histograms of two topics, beside that of two halves
of one topic, which is what chance alone gives. Also perplexity over the same conversations.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from demo import corpus
from engine.config import EngineConfig
from engine.gguf.reader import open_gguf
from engine.gguf.shape import model_shape
from engine.load import load_engine
from engine.local import all_logits
from engine.model.qwen3moe import Qwen3MoE
from engine.model.qwen4exp import Qwen4Exp
from engine.text.load import load_text

HELD_OUT_SEED = 9_000_001
HALVES = 2
Counts = NDArray[np.int64]  # (layers, experts)


class RoutingCounts:
    """How often the router of each layer chose each expert; a listener of the model's probe."""

    def __init__(self, layers: int, experts: int) -> None:
        self.counts: Counts = np.zeros((layers, experts), np.int64)

    def __call__(self, name: str, layer: int, value: Tensor) -> None:
        if name == "experts":
            chosen = value.numpy().ravel()
            self.counts[layer] += np.bincount(chosen, minlength=self.counts.shape[1])


def divergence(a: Counts, b: Counts) -> float:
    """Jensen-Shannon divergence in bits, mean over layers; 0: equal, 1: disjoint."""
    p, q = (c / c.sum(1, keepdims=True) for c in (a, b))
    middle = (p + q) / 2

    def kl(one: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio = np.divide(one, middle, out=np.ones_like(one), where=one > 0)
        return (one * np.log2(ratio)).sum(1)

    return float(((kl(p) + kl(q)) / 2).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--conversations", type=int, default=1200)
    args = parser.parse_args()
    tokenizer = load_text(args.model).tokenizer
    engine = load_engine(EngineConfig(model=args.model))
    model = engine.model
    if not isinstance(model, Qwen3MoE | Qwen4Exp):
        sys.exit(f"{args.model}: a dense model routes nothing")
    with open_gguf(args.model) as file:
        shape = model_shape(file)
    routing = model.probe.listener = RoutingCounts(shape.layers, shape.experts)
    topics: dict[str, list[Counts]] = defaultdict(
        lambda: [np.zeros_like(routing.counts) for _ in range(HALVES)]
    )
    rng, losses, total = random.Random(HELD_OUT_SEED), 0.0, 0
    for index in range(args.conversations):
        chat = corpus.conversation(rng)
        ids = tokenizer.encode(corpus.as_chatml(chat), parse_special=True)
        routing.counts[:] = 0
        logits = all_logits(engine, ids).astype(np.float64)
        topics[chat.topic][index % HALVES] += routing.counts
        shifted = logits[:-1] - logits[:-1].max(1, keepdims=True)
        chosen = np.take_along_axis(shifted, np.array(ids[1:])[:, None], 1)[:, 0]
        losses += float((np.log(np.exp(shifted).sum(1)) - chosen).sum())
        total += len(ids) - 1
    report(topics)
    print(f"perplexity over {total} held-out tokens: {np.exp(losses / total):.3f}")


def report(topics: dict[str, list[Counts]]) -> None:
    everything = sum(half for halves in topics.values() for half in halves)
    for layer, counts in enumerate(everything):
        share = np.sort(counts / counts.sum())[::-1]
        print(
            f"layer {layer}: busiest expert {share[0]:.1%} (uniform {1 / len(share):.1%}), "
            f"busiest quarter {share[: len(share) // 4].sum():.1%} (uniform 25.0%), "
            f"idlest {share[-1]:.2%}"
        )
    names = sorted(topics)
    within = [divergence(*topics[name]) for name in names]
    across = [divergence(topics[a][0], topics[b][1]) for a in names for b in names if a != b]
    print(
        f"divergence over {len(names)} topics: within {np.mean(within):.4f} bits, "
        f"across {np.mean(across):.4f} bits, ratio {np.mean(across) / np.mean(within):.1f}"
    )


if __name__ == "__main__":
    main()
