"""Trains the demo model and writes models/lamina-demo.gguf.

    python tools/train_demo.py                             train (or resume) and export
    python tools/train_demo.py export --type f16 --out F   write the checkpoint in another precision
    python tools/train_demo.py measure                     perplexity and routing figures
    python tools/train_demo.py verify                      compare the files with transformers

About 30 minutes on two AVX-512 cores. Everything follows from the seeds; see models/README.md.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.demo import corpus, export, measure, verify, vocabulary
from tools.demo.batches import BATCH, TIME, Batches, loss_of
from tools.demo.model import ROUTER_LOSSES, DemoModel, Shape

TRAIN_SEED, HELD_OUT_SEED, MODEL_SEED = 1, 9_000_001, 7
ROUTING_SEEDS = (11, 12)
ACTIONS = ("train", "export", "measure", "verify")
STEPS = 1100
LEARNING_RATE, LAST_RATE, WARM_UP = 1.5e-3, 0.03, 100
REPORT_STEPS, SAVE_STEPS = 20, 200


def recipe_name(steps: int) -> str:
    """A short hash of what is trained on and how, so that work of another recipe is not resumed."""
    rng = random.Random(TRAIN_SEED)
    text = "".join(corpus.document(rng) for _ in range(1000))
    rates = (LEARNING_RATE, LAST_RATE, WARM_UP)
    shape = Shape(vocab=vocabulary.VOCAB)
    recipe = repr((text, shape, ROUTER_LOSSES, rates, steps, BATCH, TIME, MODEL_SEED))
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then half a cosine down to a fraction LAST_RATE."""
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return LEARNING_RATE * (LAST_RATE + (1 - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * done)))


def new_optimizer(model: DemoModel) -> torch.optim.Optimizer:
    """AdamW; norms do not decay."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": 0.05},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95), fused=True)


def train(tokenizer: Tokenizer, checkpoint: Path, steps: int) -> DemoModel:
    """Train to `steps`, from the checkpoint where there is one."""
    torch.manual_seed(MODEL_SEED)
    model = DemoModel(Shape(vocab=tokenizer.get_vocab_size()))
    optimizer = new_optimizer(model)
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
        print(f"resuming at step {first}", flush=True)
    batches = Batches(tokenizer, TRAIN_SEED, skip=first)
    began = time.monotonic()
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)
        loss, auxiliary = loss_of(model, batches.draw())
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss + auxiliary)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % REPORT_STEPS == 0:
            rate = (step + 1 - first) * BATCH * TIME / (time.monotonic() - began)
            print(f"step {step + 1}/{steps} loss {loss.item():.3f} {rate:.0f} tokens/s", flush=True)
        if (step + 1) % SAVE_STEPS == 0 or step + 1 == steps:
            save(checkpoint, model, optimizer, step + 1)
    return model


def save(path: Path, model: DemoModel, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Replace the checkpoint at once, so that a stop never leaves half of one."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def load(tokenizer: Tokenizer, checkpoint: Path) -> DemoModel:
    """The model of a checkpoint."""
    model = DemoModel(Shape(vocab=tokenizer.get_vocab_size()))
    model.load_state_dict(torch.load(checkpoint, weights_only=True)["model"])
    return model


def print_figures(model: DemoModel, tokenizer: Tokenizer) -> None:
    """The figures of the card."""
    held_out = measure.perplexity(model, tokenizer, HELD_OUT_SEED)
    print(f"held-out perplexity {held_out:.3f}", flush=True)
    one, two = (measure.expert_shares(model, tokenizer, seed) for seed in ROUTING_SEEDS)
    measure.report_routing(one, two)


def main() -> None:
    """Parse the command line and run one action."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", nargs="?", default="train", choices=ACTIONS)
    parser.add_argument("--checkpoint", type=Path, help="default: build/demo/RECIPE/checkpoint.pt")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--type", choices=export.RECIPES, default="mix")
    parser.add_argument("--out", type=Path, default=ROOT / "models" / "lamina-demo.gguf")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    work = ROOT / "build" / "demo" / recipe_name(args.steps)
    checkpoint = args.checkpoint or work / "checkpoint.pt"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.load_or_train(checkpoint.parent / "tokenizer.json", TRAIN_SEED)
    train_it = args.action == "train"
    model = train(tokenizer, checkpoint, args.steps) if train_it else load(tokenizer, checkpoint)
    if args.action in ("train", "export"):
        export.write(args.out, model, tokenizer, args.type)
        print(f"{args.out}: {args.out.stat().st_size / 1e6:.2f} MB", flush=True)
    if args.action in ("train", "measure"):
        print_figures(model, tokenizer)
    if args.action in ("train", "verify"):
        verify.verify(model, tokenizer, args.out, HELD_OUT_SEED)


if __name__ == "__main__":
    main()
