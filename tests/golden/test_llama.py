"""`llama` against LlamaForCausalLM of transformers: logits at every position."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, write_gguf
from helpers.engines import logits_of, random_prompt
from helpers.hf_models import Floats, hf_llama, hf_logits
from helpers.tiny_gguf import TinyModel, tensor_source, tiny_metadata, tiny_weights, write_model

BOUND = 1e-4
LENGTH = 70
BASE = 10000.0
TINY = TinyModel(architecture="llama", rope_base=BASE)
PLAIN = {"rope_type": "default", "rope_theta": BASE}
LLAMA3: dict[str, Any] = {  # wavelengths up to 128 stay, from 512 on all are divided
    "rope_type": "llama3",
    "rope_theta": BASE,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}


def assert_equal_to_transformers(path: Path, rope: dict[str, Any]) -> None:
    prompt = random_prompt(TINY.vocab, LENGTH)
    expected = hf_logits(hf_llama(path, rope), prompt)
    assert np.abs(logits_of(path, prompt) - expected).max() < BOUND


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.F16])
def test_model_equals_transformers(
    tied: bool, kv_heads: int, type: GGMLType, tmp_path: Path
) -> None:
    model = TinyModel(architecture="llama", tied_output=tied, kv_heads=kv_heads, type=type)
    assert_equal_to_transformers(write_model(tmp_path / "m.gguf", model), PLAIN)


def test_linear_rope_scaling_equals_transformers(tmp_path: Path) -> None:
    scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    path = write_with(tmp_path / "m.gguf", metadata=scaling)
    assert_equal_to_transformers(path, {"rope_type": "linear", "factor": 4.0, "rope_theta": BASE})


def test_rope_freqs_equal_transformers(tmp_path: Path) -> None:
    path = write_with(tmp_path / "m.gguf", tensors={"rope_freqs.weight": llama3_divisors()})
    assert_equal_to_transformers(path, LLAMA3)


def test_rope_freqs_change_the_logits(tmp_path: Path) -> None:
    prompt = random_prompt(TINY.vocab, LENGTH)
    path = write_with(tmp_path / "m.gguf", tensors={"rope_freqs.weight": llama3_divisors()})
    plain = write_model(tmp_path / "plain.gguf", TINY)
    assert np.abs(logits_of(path, prompt) - logits_of(plain, prompt)).max() > 100 * BOUND


def write_with(
    path: Path,
    *,
    metadata: dict[str, object] | None = None,
    tensors: dict[str, Floats] | None = None,
) -> Path:
    """TINY with more metadata or tensors."""
    weights = tiny_weights(TINY) | (tensors or {})
    sources: list[TensorSource] = [tensor_source(n, v, TINY) for n, v in weights.items()]
    write_gguf(path, tiny_metadata(TINY) | (metadata or {}), sources)
    return path


def llama3_divisors() -> Floats:
    """(head_dim / 2,) what convert_hf_to_gguf.py writes as rope_freqs for LLAMA3."""
    factor, low, high = (LLAMA3[key] for key in ("factor", "low_freq_factor", "high_freq_factor"))
    original = LLAMA3["original_max_position_embeddings"]
    divisors = []
    for index in range(TINY.head_dim // 2):
        wavelength = 2 * math.pi * BASE ** (2 * index / TINY.head_dim)
        smooth = (original / wavelength - low) / (high - low)
        divisors.append(1 / (min(max(smooth, 0.0), 1.0) * (1 - 1 / factor) + 1 / factor))
    return np.array(divisors, np.float32)
