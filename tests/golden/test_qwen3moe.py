"""`qwen3moe` against Qwen3MoeForCausalLM of transformers: logits at every position.

Largest difference seen: 2e-6 on the tiny models, 2e-5 on the demo model.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.gguf.types import GGMLType
from helpers.engines import DEMO, logits_of, random_prompt
from helpers.f32_copy import write_f32_copy
from helpers.hf_models import hf_logits, hf_qwen3moe
from helpers.tiny_gguf import write_tiny_model

BOUND = 1e-4
LENGTH = 70  # crosses pages and tiles


@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.F16, GGMLType.Q8_0])
def test_tiny_model_equals_transformers(type: GGMLType, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", type=type, layers=3, kv_heads=1, vocab=300)
    prompt = random_prompt(300, LENGTH)
    expected = hf_logits(hf_qwen3moe(path), prompt)
    assert np.abs(logits_of(path, prompt) - expected).max() < BOUND


def test_wide_heads_and_all_experts_equal_transformers(tmp_path: Path) -> None:
    path = write_tiny_model(
        tmp_path / "m.gguf", head_dim=64, heads=2, experts=5, experts_used=5, rope_base=1e6
    )
    prompt = random_prompt(256, LENGTH)
    expected = hf_logits(hf_qwen3moe(path), prompt)
    assert np.abs(logits_of(path, prompt) - expected).max() < BOUND


def test_demo_model_equals_transformers(tmp_path: Path) -> None:
    """The quantised file, and its F32 copy, against the same expanded weights."""
    prompt = random_prompt(1000, LENGTH)
    expected = hf_logits(hf_qwen3moe(DEMO), prompt)
    copy = write_f32_copy(DEMO, tmp_path / "f32.gguf")
    for path in (DEMO, copy):
        assert np.abs(logits_of(path, prompt) - expected).max() < BOUND
