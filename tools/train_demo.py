"""Trains the demo model and writes models/lamina-demo.gguf.

    python tools/train_demo.py                        train (resumes from the checkpoint) and export
    python tools/train_demo.py export --type f16 --out F   write the checkpoint in another precision
    python tools/measure_routing.py models/lamina-demo.gguf     the figures of the card

About 35 minutes on two AVX-512 cores. Everything follows from the seed; see models/README.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

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
EVEN_STEPS, SPECIAL_STEPS = 1500, 300
EVEN_RATE, SPECIAL_RATE, WARM_UP = 2e-3, 8e-4, 60
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


def learning_rate(step: int) -> float:
    """Warm-up, then a half cosine; the second stage has one of its own."""
    if step < WARM_UP:
        return EVEN_RATE * (step + 1) / WARM_UP
    if step < EVEN_STEPS:
        return EVEN_RATE * cosine((step - WARM_UP) / (EVEN_STEPS - WARM_UP))
    return SPECIAL_RATE * cosine((step - EVEN_STEPS) / SPECIAL_STEPS)


def cosine(done: float) -> float:
    """From 1 to 0.05 as `done` goes from 0 to 1."""
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done))


def train(tokenizer: Tokenizer, checkpoint: Path) -> DemoModel:
    torch.manual_seed(MODEL_SEED)
    model = DemoModel(Shape(vocab=tokenizer.get_vocab_size()))
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=EVEN_RATE, betas=(0.9, 0.95), fused=True)
    first, steps = 0, EVEN_STEPS + SPECIAL_STEPS
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
            group["lr"] = learning_rate(step)
        for layer in model.layers:
            layer.moe.specialise = step >= EVEN_STEPS
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", nargs="?", default="train", choices=("train", "export"))
    parser.add_argument("--checkpoint", type=Path, default=WORK / "checkpoint.pt")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--type", choices=export.RECIPES, default="mix")
    parser.add_argument("--out", type=Path, default=ROOT / "models" / "lamina-demo.gguf")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.load_or_train(WORK / "tokenizer.json", TRAIN_SEED)
    if args.action == "train":
        model = train(tokenizer, args.checkpoint)
    else:
        model = DemoModel(Shape(vocab=tokenizer.get_vocab_size()))
        model.load_state_dict(torch.load(args.checkpoint, weights_only=True)["model"])
    print(f"held-out perplexity {perplexity(model, tokenizer):.3f}")
    export.write(args.out, model, tokenizer, args.type)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
