"""Trains the demo model and writes models/lamina-demo.gguf.

    python tools/train_demo.py                        train (resumes from the checkpoint) and export
    python tools/train_demo.py export --type f16 --out F   write the checkpoint in another precision
    python tools/train_demo.py measure                perplexity and routing figures for the card

About 35 minutes on two AVX-512 cores. Everything follows from the seed; see models/README.md.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent))

from demo import corpus, export, vocabulary
from demo.model import DemoModel, Shape

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "demo"
TRAIN_SEED, HELD_OUT_SEED, MODEL_SEED = 1, 9_000_001, 7
BATCH, TIME = 16, 256
STEPS = 1500
LEARNING_RATE, WARM_UP = 2e-3, 60
REPORT_STEPS, SAVE_STEPS = 20, 200


class Batches:
    """Packs conversations into rows of TIME + 1 ids; `skip` batches are drawn and dropped."""

    def __init__(self, tokenizer: Tokenizer, seed: int, skip: int = 0) -> None:
        self._tokenizer = tokenizer
        self._chats = corpus.conversations(seed)
        self._ids: list[int] = []
        for _ in range(skip):
            self.draw()

    def draw(self) -> torch.Tensor:
        """(BATCH, TIME + 1) int64."""
        need = BATCH * (TIME + 1)
        while len(self._ids) < need:
            texts = [corpus.as_chatml(next(self._chats)) for _ in range(64)]
            for encoding in self._tokenizer.encode_batch(texts):
                self._ids.extend(encoding.ids)
        rows, self._ids = self._ids[:need], self._ids[need:]
        return torch.tensor(rows).view(BATCH, TIME + 1)


def loss_of(model: DemoModel, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, auxiliary = model(rows[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten()), auxiliary


def learning_rate(step: int, steps: int) -> float:
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return LEARNING_RATE * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def train(tokenizer: Tokenizer, checkpoint: Path, steps: int) -> DemoModel:
    torch.manual_seed(MODEL_SEED)
    model = DemoModel(Shape(vocab=tokenizer.get_vocab_size()))
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), fused=True)
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
        print(f"resuming at step {first}")
    batches = Batches(tokenizer, TRAIN_SEED, skip=first)
    began = time.monotonic()
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        loss, auxiliary = loss_of(model, batches.draw())
        optimizer.zero_grad(set_to_none=True)
        (loss + auxiliary).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % REPORT_STEPS == 0:
            rate = (step + 1 - first) * BATCH * TIME / (time.monotonic() - began)
            print(f"step {step + 1}/{steps} loss {loss.item():.3f} {rate:.0f} tokens/s", flush=True)
        if (step + 1) % SAVE_STEPS == 0 or step + 1 == steps:
            save(checkpoint, model, optimizer, step + 1)
    return model


def save(path: Path, model: DemoModel, optimizer: torch.optim.Optimizer, step: int) -> None:
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


@torch.no_grad()
def perplexity(model: DemoModel, tokenizer: Tokenizer, batches: int = 12) -> float:
    """Over held-out conversations, every token counted alike."""
    rows = Batches(tokenizer, HELD_OUT_SEED)
    losses = [loss_of(model, rows.draw())[0].item() for _ in range(batches)]
    return math.exp(sum(losses) / len(losses))


@torch.no_grad()
def expert_histograms(
    model: DemoModel, tokenizer: Tokenizer, seed: int, tokens_per_topic: int = 3000
) -> dict[str, np.ndarray]:
    """topic -> (layers, experts) share of routed pairs; only the assistant's words count."""
    counts: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((model.s.layers, model.s.experts)))
    rng = random.Random(seed)
    while min((c[0].sum() for c in counts.values()), default=0) < tokens_per_topic * 4:
        chat = corpus.conversation(rng)
        ids = tokenizer.encode(corpus.as_chatml(chat)).ids
        model(torch.tensor([ids]))
        for index, layer in enumerate(model.layers):
            counts[chat.topic][index] += np.bincount(
                layer.moe.last_ids.flatten().numpy(), minlength=model.s.experts
            )
    return {topic: c / c.sum(1, keepdims=True) for topic, c in counts.items()}


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Jensen-Shannon divergence in bits, mean over layers; 0 equal, 1 disjoint."""
    middle = (p + q) / 2

    def kl(a: np.ndarray) -> np.ndarray:
        return np.where(a > 0, a * np.log2(np.where(a > 0, a, 1) / middle), 0).sum(1)

    return float(((kl(p) + kl(q)) / 2).mean())


def measure(model: DemoModel, tokenizer: Tokenizer) -> None:
    """Print the figures of the card."""
    print(f"held-out perplexity {perplexity(model, tokenizer):.3f}")
    one, two = (expert_histograms(model, tokenizer, seed) for seed in (11, 12))
    total = sum(one.values()) / len(one)
    for index, layer in enumerate(total):
        top = np.sort(layer)[::-1]
        print(
            f"layer {index}: busiest {top[0]:.1%}, busiest 8 of {len(top)} {top[:8].sum():.1%}"
            f" (uniform {8 / len(top):.1%}), idlest {top[-1]:.2%}"
        )
    topics = sorted(one)
    within = np.mean([divergence(one[t], two[t]) for t in topics])
    across = np.mean([divergence(one[a], two[b]) for a in topics for b in topics if a != b])
    print(f"divergence within a topic {within:.4f} bits, across topics {across:.4f} bits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "action", nargs="?", default="train", choices=("train", "export", "measure")
    )
    parser.add_argument("--checkpoint", type=Path, default=WORK / "checkpoint.pt")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--type", choices=export.RECIPES, default="mix")
    parser.add_argument("--out", type=Path, default=ROOT / "models" / "lamina-demo.gguf")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.load_or_train(WORK / "tokenizer.json", TRAIN_SEED)
    if args.action == "train":
        model = train(tokenizer, args.checkpoint, args.steps)
    else:
        model = DemoModel(Shape(vocab=tokenizer.get_vocab_size()))
        model.load_state_dict(torch.load(args.checkpoint, weights_only=True)["model"])
    if args.action in ("train", "measure"):
        measure(model, tokenizer)
    if args.action in ("train", "export"):
        export.write(args.out, model, tokenizer, args.type)
        print(f"{args.out}: {args.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
