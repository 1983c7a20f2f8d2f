"""Figures of a trained demo model: perplexity, and how its routing depends on the topic.

`tools/train_demo.py measure` prints them; models/README.md quotes them.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tools.demo import corpus
from tools.demo.batches import Batches, loss_of
from tools.demo.model import DemoModel

TOKENS_PER_TOPIC = 3000
BUSIEST = 8
Shares = NDArray[np.float64]  # (layers, experts), every row sums to 1


@torch.no_grad()
def perplexity(model: DemoModel, tokenizer: Tokenizer, seed: int, batches: int = 12) -> float:
    """Over the text of a seed, every token counted alike."""
    rows = Batches(tokenizer, seed)
    losses = [loss_of(model, rows.draw())[0].item() for _ in range(batches)]
    return math.exp(sum(losses) / len(losses))


@torch.no_grad()
def expert_shares(model: DemoModel, tokenizer: Tokenizer, seed: int) -> dict[str, Shares]:
    """topic -> share of the routed (token, expert) pairs, from TOKENS_PER_TOPIC tokens or more."""
    shape = (model.s.layers, model.s.experts)
    counts: dict[str, Shares] = defaultdict(lambda: np.zeros(shape))
    rng = random.Random(seed)
    full = TOKENS_PER_TOPIC * model.s.experts_used
    idle_draws = 0
    while idle_draws < 2000:
        chat = corpus.one_kind(rng)
        if counts[chat.topic][0].sum() >= full:
            idle_draws += 1
            continue
        idle_draws = 0
        ids = tokenizer.encode(corpus.as_chatml(chat.messages)).ids
        model(torch.tensor([ids]))
        for index, layer in enumerate(model.blocks):
            routed = layer.moe.last_ids.flatten().numpy()
            counts[chat.topic][index] += np.bincount(routed, minlength=model.s.experts)
    return {topic: c / c.sum(1, keepdims=True) for topic, c in counts.items()}


def divergence(p: Shares, q: Shares) -> float:
    """Jensen-Shannon divergence in bits, mean over layers: 0 equal, 1 disjoint."""
    middle = (p + q) / 2

    def relative_entropy(a: Shares) -> Shares:
        logs = np.log2(np.where(a > 0, a, 1) / np.where(a > 0, middle, 1))
        return np.asarray((a * logs).sum(1))

    return float(((relative_entropy(p) + relative_entropy(q)) / 2).mean())


def report_routing(one: dict[str, Shares], two: dict[str, Shares]) -> None:
    """Print load by layer, and how far topics lie apart; `two` is `one` from other text."""
    topics = sorted(one)
    total = sum((one[topic] for topic in topics), np.zeros_like(one[topics[0]])) / len(topics)
    experts = total.shape[1]
    print(f"even load: {1 / experts:.2%} each, {BUSIEST / experts:.1%} for {BUSIEST}")
    for index, load in enumerate(total):
        by_topic = np.mean([top_share(one[topic][index]) for topic in topics])
        print(
            f"layer {index}: busiest {load.max():.1%}, busiest {BUSIEST} {top_share(load):.1%},"
            f" idlest {load.min():.2%}; within one topic busiest {BUSIEST} {by_topic:.1%}"
        )
    within = [divergence(one[topic], two[topic]) for topic in topics]
    across = [divergence(one[a], two[b]) for a in topics for b in topics if a != b]
    print(
        f"Jensen-Shannon divergence over {len(topics)} topics:"
        f" same topic {np.mean(within):.4f} bits,"
        f" different topics {np.mean(across):.4f} bits (least {min(across):.4f})"
    )


def top_share(load: Shares) -> float:
    """Share of the BUSIEST experts in the load of one layer, (experts,)."""
    return float(np.sort(load)[-BUSIEST:].sum())
