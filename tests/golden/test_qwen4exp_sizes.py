"""The engine against the float64 oracle at other sizes and in every type that real files mix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.model_files.plan import parse_types
from bench.model_files.qwen4exp import PRESETS
from bench.models import Model, write_model
from engine.gguf.reader import open_gguf
from engine.gguf.shape.qwen4exp import NGRAM_TABLE
from engine.local import all_logits
from helpers.engines import opened, random_prompt
from helpers.qwen4exp_oracle import Oracle
from helpers.qwen4exp_vectors import rewritten

BOUND = 1e-4
SIZES: dict[str, dict[str, Any]] = {
    "deeper": {"layers": 9, "full_interval": 3},
    "narrow": {"hidden": 64, "ff": 32, "shared_ff": 96, "low_rank": 8, "streams": 2},
    "heads": {"heads": 6, "kv_heads": 3, "head_dim": 64, "rope_dims": 32},
    "delta heads": {"key_heads": 3, "value_heads": 3, "state_dim": 64, "conv_kernel": 3},
    "pruned": {"experts": 5, "experts_used": 5},
    "one expert": {"experts": 40, "experts_used": 1},
    "wide blocks": {"index_budget": 48, "index_block": 6, "index_heads": 3, "index_dim": 72},
    "one block": {"index_budget": 2, "index_block": 2},
    "bigrams": {"ngram_size": 2, "ngram_heads": 3, "ngram_dim": 64, "ngram_layer": 0},
    "4-grams": {"ngram_size": 4, "ngram_heads": 2, "ngram_kernel": 3, "ngram_layer": 2},
}
TYPES = (
    *("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K"),
    *("Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL"),
    *("IQ4_XS", "MXFP4", "Q2_0"),
)


def written(
    path: Path, *, types: str = "experts=F16,trunk=F16", sizes: dict[str, Any] | None = None,
    **options: Any,
) -> Path:  # fmt: skip
    """A small model; dimensions that no option names are those of the tiny preset."""
    tiny = replace(PRESETS["tiny"], **{"vocab": 300, "ngram_rows": 2000} | (sizes or {}))
    write_model(path, Model(sizes=tiny, types=parse_types(types), seed=3, **options))
    return path


def oracle_logits(path: Path, prompt: list[int]) -> NDArray[np.float64]:
    with open_gguf(path) as model:
        logits: NDArray[np.float64] = Oracle(model).forward(np.asarray(prompt))
    return logits


def assert_as_the_oracle(path: Path) -> None:
    prompt = random_prompt(300, 70)
    with opened(path) as engine:
        logits = all_logits(engine, prompt, chunk_tokens=33)
    assert np.abs(logits - oracle_logits(path, prompt)).max() < BOUND


@pytest.mark.parametrize("name", SIZES)
def test_other_sizes_equal_the_oracle(name: str, tmp_path: Path) -> None:
    assert_as_the_oracle(written(tmp_path / "m.gguf", sizes=SIZES[name]))


@pytest.mark.parametrize("type", TYPES)
def test_every_type_equals_the_oracle(type: str, tmp_path: Path) -> None:
    """Where a row length does not fit the type, its fallback as real files have it."""
    types = ",".join(f"{role}={type}" for role in ("experts", "down", "trunk", "head", "ngram"))
    assert_as_the_oracle(written(tmp_path / "m.gguf", types=types, sizes={"layers": 4}))


def test_model_without_an_ngram_embedding_equals_the_oracle(tmp_path: Path) -> None:
    norms = ("key", "value", "norm_key", "norm_query", "norm_conv", "conv1d")
    left_out = {NGRAM_TABLE: None} | {f"blk.1.ple_{name}.weight": None for name in norms}
    path = rewritten(tmp_path / "m.gguf", {"ple.layers": None}, left_out)
    assert_as_the_oracle(path)


def test_fused_expert_stacks_give_the_same_bits(tmp_path: Path) -> None:
    types = "experts=IQ2_XXS,trunk=Q8_0"
    apart = written(tmp_path / "apart.gguf", types=types)
    fused = written(tmp_path / "fused.gguf", types=types, fused=True)
    with opened(apart) as one, opened(fused) as other:
        np.testing.assert_array_equal(all_logits(one, [1, 2, 3]), all_logits(other, [1, 2, 3]))


def test_table_in_a_file_of_its_own_gives_the_same_bits(tmp_path: Path) -> None:
    table = tmp_path / "table.gguf"
    whole = written(tmp_path / "whole.gguf")
    apart = written(tmp_path / "apart.gguf", ngram_file=table)
    with opened(whole) as one, opened(apart, ngram_table=table) as other:
        np.testing.assert_array_equal(all_logits(one, [1, 2, 3]), all_logits(other, [1, 2, 3]))


def test_fewer_experts_per_token_are_another_model_and_say_so(tmp_path: Path) -> None:
    path = written(tmp_path / "m.gguf")
    with opened(path) as engine, opened(path, experts_per_token=3) as faster:
        assert (engine.facts.experts_per_token, engine.facts.approximate) == (4, False)
        assert (faster.facts.experts_per_token, faster.facts.approximate) == (3, True)
        assert faster.facts.model_experts_per_token == 4
        difference = all_logits(engine, [1, 2, 3]) - all_logits(faster, [1, 2, 3])
    assert 1e-3 < np.abs(difference).max() < 5
