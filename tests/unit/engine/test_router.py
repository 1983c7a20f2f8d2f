"""The router decides which weights run at all: it is exact in every mode."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.gguf.quants import quantize
from engine.gguf.types import GGMLType
from engine.gguf.writer import write_gguf
from helpers.engines import logits_of, random_prompt
from helpers.tiny_gguf import TinyModel, tensor_source, tiny_metadata, tiny_weights

TINY = TinyModel()


def with_one_quantised(path: Path, name: str) -> Path:
    """All matrices but one are F32, which no mode rounds."""
    sources = []
    for key, values in tiny_weights(TINY).items():
        source = tensor_source(key, values, TINY)
        if key == name:
            data = quantize(values, GGMLType.Q8_0)
            source = replace(source, type=GGMLType.Q8_0, produce=data.tobytes)
        sources.append(source)
    write_gguf(path, tiny_metadata(TINY), sources)
    return path


@pytest.mark.parametrize(
    ("name", "same"), [("blk.0.ffn_gate_inp.weight", True), ("blk.0.attn_q.weight", False)]
)
def test_rounding_activations_leaves_the_router_alone(
    name: str, same: bool, tmp_path: Path
) -> None:
    path, prompt = with_one_quantised(tmp_path / "m.gguf", name), random_prompt(TINY.vocab, 40)
    exact, rounded = (
        logits_of(path, prompt, activations=mode, kv_type="f32") for mode in ("f32", "int8")
    )
    assert np.array_equal(exact, rounded) is same
