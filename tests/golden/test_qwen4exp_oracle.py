"""The float64 oracle of `qwen4exp` against reference logits of another implementation.

vectors/qwen4exp: tiny random models and, in quant_refs.npz, float64 logits of the same equations
over the dequantised weights, which transformers' Qwen4ExpForCausalLM and llama.cpp agree with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.gguf.reader import open_gguf
from helpers.qwen4exp_oracle import Oracle

VECTORS = Path(__file__).parent / "vectors" / "qwen4exp"
TYPES = ("Q2_0", "IQ2_XXS")
BOUND = 1e-4


@pytest.fixture(scope="module")
def refs() -> Iterator[dict[str, np.ndarray]]:
    with np.load(VECTORS / "quant_refs.npz") as archive:
        yield dict(archive)


@pytest.mark.parametrize("type", TYPES)
def test_logits_equal_the_reference(type: str, refs: dict[str, np.ndarray]) -> None:
    with open_gguf(VECTORS / f"tiny-{type}.gguf") as model:
        logits = Oracle(model).forward(refs["p40"])
    assert np.abs(logits - refs[f"{type}_ref"]).max() < BOUND


def test_sparse_attention_equals_the_reference_beyond_its_budget(
    refs: dict[str, np.ndarray],
) -> None:
    with open_gguf(VECTORS / "tiny-Q2_0.gguf") as model:
        oracle = Oracle(model)
        logits = oracle.forward(refs["p300"])
    assert np.abs(logits[-1] - refs["Q2_0_ref_p300_last"]).max() < BOUND
    allowed = oracle.trace["qsa_allowed.3"]
    assert allowed.sum(1).max() < len(refs["p300"]) // 8


@pytest.mark.parametrize("prompt", ["p40", "p300"])
def test_ngram_rows_equal_the_reference(prompt: str, refs: dict[str, np.ndarray]) -> None:
    with open_gguf(VECTORS / "tiny-Q2_0.gguf") as model:
        rows = Oracle(model).ngram_rows(refs[prompt].astype(np.int64))
    np.testing.assert_array_equal(rows, refs[f"{prompt}_ple_rows"])
