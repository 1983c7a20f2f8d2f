"""Training rows: documents of the corpus, packed without gaps."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

from tools.demo import corpus
from tools.demo.model import DemoModel

BATCH, TIME = 4, 512  # rows, tokens in a row
DOCUMENTS = 64  # encoded together


class Batches:
    """An endless stream of rows from one seed; `skip` batches are drawn and dropped."""

    def __init__(self, tokenizer: Tokenizer, seed: int, skip: int = 0) -> None:
        self._tokenizer = tokenizer
        self._rng = random.Random(seed)
        self._ids: list[int] = []
        for _ in range(skip):
            self.draw()

    def draw(self) -> torch.Tensor:
        """(BATCH, TIME + 1) int64."""
        need = BATCH * (TIME + 1)
        while len(self._ids) < need:
            texts = [corpus.document(self._rng) for _ in range(DOCUMENTS)]
            for encoding in self._tokenizer.encode_batch(texts):
                self._ids.extend(encoding.ids)
        rows, self._ids = self._ids[:need], self._ids[need:]
        return torch.tensor(rows).view(BATCH, TIME + 1)


def loss_of(model: DemoModel, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross-entropy of the next token, and the routers' loss; both scalars."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, auxiliary = model(rows[:, :-1])
    return F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten()), auxiliary
