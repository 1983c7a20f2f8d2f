"""Engines over small models, as the tests of the engine use them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.config import EngineConfig
from engine.load import load_engine
from engine.local import all_logits
from engine.step import ModelEngine

DEMO = Path(__file__).resolve().parents[2] / "models" / "lamina-demo.gguf"
KV_TOKENS = 512


@contextmanager
def opened(model: Path, **options: Any) -> Iterator[ModelEngine]:
    """An engine that is closed at the end, with two threads and a small KV cache."""
    config = EngineConfig(model=model, **({"threads": 2, "kv_tokens": KV_TOKENS} | options))
    engine = load_engine(config)
    try:
        yield engine
    finally:
        engine.close()


def logits_of(model: Path, prompt: list[int], **options: Any) -> NDArray[np.float32]:
    """(tokens, vocab) from an engine of its own."""
    with opened(model, **options) as engine:
        return all_logits(engine, prompt)


def random_prompt(vocab_size: int, length: int, *, seed: int = 0) -> list[int]:
    """Token ids."""
    random = np.random.default_rng([seed, length])
    return [int(token) for token in random.integers(0, vocab_size, length)]
