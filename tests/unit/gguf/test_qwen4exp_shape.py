"""The shape of `qwen4exp`: what is read, and one refusal for everything that cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import ModelFileError
from engine.gguf.reader import open_gguf
from engine.gguf.shape import Qwen4ExpShape, model_shape
from engine.gguf.shape.qwen4exp import NGRAM_TABLE
from helpers.qwen4exp_vectors import rewritten

INT = np.int32
BIG = np.uint64
RATIOS = [0, 0, 0, 4]


def shape_of(
    path: Path,
    metadata: Mapping[str, Any] | None = None,
    *,
    tensors: Mapping[str, tuple[int, ...] | None] | None = None,
) -> Qwen4ExpShape:
    """The shape of the tiny model with metadata and tensors changed; None leaves one out."""
    rewritten(path, metadata or {}, tensors or {})
    with open_gguf(path) as model:
        found = model_shape(model)
    assert isinstance(found, Qwen4ExpShape)
    return found


def test_shape_of_the_tiny_model(tmp_path: Path) -> None:
    shape = shape_of(tmp_path / "m.gguf")
    assert (shape.layers, shape.hidden, shape.vocab, shape.streams) == (4, 256, 384, 4)
    assert (shape.attention_layers, shape.recurrent_layers) == ((3,), (0, 1, 2))
    assert (shape.heads, shape.kv_heads, shape.head_dim, shape.rope_dims) == (2, 1, 256, 64)
    assert (shape.key_heads, shape.value_heads, shape.key_dim, shape.value_dim) == (2, 6, 128, 128)
    assert (shape.experts, shape.experts_used, shape.expert_ff) == (16, 4, 64)
    assert (shape.index_heads, shape.index_budget, shape.ratios) == (8, 16, (0, 0, 0, 4))
    assert shape.draft_layers == 0
    assert shape.ngram is not None
    assert (shape.ngram.layer, shape.ngram.dilation, shape.ngram.embedding) == (1, 3, 256)
    assert shape.ngram.multipliers[0] == 16304757896083889  # exact, beyond a double


def test_recurrent_layers_may_be_listed(tmp_path: Path) -> None:
    listed = {
        "full_attention_interval": None,
        "attention.recurrent_layers": [True, True, True, False],
    }
    assert shape_of(tmp_path / "m.gguf", listed).attention_layers == (3,)


def test_gate_and_up_may_be_fused(tmp_path: Path) -> None:
    fused: dict[str, tuple[int, ...] | None] = {
        "blk.2.ffn_gate_exps.weight": None,
        "blk.2.ffn_up_exps.weight": None,
        "blk.2.ffn_gate_up_exps.weight": (256, 128, 16),
    }
    assert shape_of(tmp_path / "m.gguf", tensors=fused).experts == 16


@pytest.mark.parametrize("ratio", [0, 4])
def test_layer_that_attends_to_everything_needs_no_index(ratio: int, tmp_path: Path) -> None:
    index = [f"indexer.{name}.weight" for name in ("q_proj", "k_proj", "q_norm", "k_norm")]
    changed = {"attention.compress_ratios": np.array([0, 0, 0, ratio], INT)}
    left_out = {f"blk.3.{name}": None for name in index}
    if ratio:
        with pytest.raises(ModelFileError, match=r"tensor blk.3.indexer.q_proj.weight is missing"):
            shape_of(tmp_path / "m.gguf", changed, tensors=left_out)
    else:
        assert shape_of(tmp_path / "m.gguf", changed, tensors=left_out).ratios == (0, 0, 0, 0)
        assert shape_of(tmp_path / "n.gguf", changed).ratios == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"nextn_predict_layers": 1}, "nextn_predict_layers is 1, found 0"),
        ({"nextn_predict_layers": 4}, "block_count is 4, of which 4 are draft blocks"),
        ({"block_count": 5000}, "block_count is 5000"),
        (
            {"attention.compress_ratios": np.array([0, 0, 4], INT)},
            "compress_ratios has 3 values for 4 blocks",
        ),
        ({"attention.compress_ratios": "four"}, "compress_ratios is 'four', not an array of whole"),
        (
            {"attention.recurrent_layers": [True, False]},
            "recurrent_layers has 2 values for 4 layers",
        ),
        ({"attention.compress_ratios": np.array([0, 0, 0, -4], INT)}, r"blocks of \[-4\]"),
        ({"attention.indexer.top_k": 18}, r"budget of 18 positions in blocks of \[4\]"),
        ({"attention.indexer.top_k": 2}, "budget of 2 positions"),
        ({"attention.indexer.key_length": 124}, "heads of 124: not a multiple of 8"),
        ({"attention.head_count": 3, "attention.head_count_kv": 2}, "3 heads do not share 2"),
        ({"attention.value_length": 128}, "value_length 128 differs from key_length 256"),
        ({"rope.dimension_count": 130}, "130 rotating dimensions in heads of 128"),
        ({"rope.freq_base": -1.0}, "rope base -1.0"),
        ({"ssm.group_count": 4}, "6 value heads do not share 4 key heads"),
        ({"ssm.inner_size": 769}, "inner size 769 for 6 value heads"),
        ({"ssm.inner_size": 6 * 12}, "delta net heads of 128 and 12: not multiples of 8"),
        ({"expert_used_count": 17}, "17 of 16 experts used"),
        ({"expert_used_count": 0}, "expert_used_count is 0, less than 1"),
        ({"context_length": 1 << 31}, "context of 2147483648"),
        ({"attention.layer_norm_rms_epsilon": None}, "rms_epsilon is missing"),
        ({"attention.layer_norm_rms_epsilon": -1.0}, "epsilon -1.0"),
        (
            {"embedding_length_per_layer_input": 64},
            r"per_layer_token_embd.weight is \[32, 4992\], \[64, 4992\] expected",
        ),
        (
            {"ple.head_vocab_sizes": np.array([601, 607], BIG)},
            r"\(3, 8, 2\) multipliers, offsets and sizes for 8 heads of 3-grams",
        ),
        ({"ple.head_vocab_sizes": np.array([0] * 8, BIG)}, "read beyond the table"),
        ({"ple.layer_multipliers": np.array([1, -2, 3])}, "multipliers that overflow"),
        ({"ple.layers": np.array([1, 2], INT)}, "ple.layers names 2 layers; one is supported"),
        ({"ple.layers": np.array([4], INT)}, "n-gram embedding at layer 4 of 4"),
        ({"ple.ngram_size": 4}, r"\(3, 8, 8\) multipliers, offsets and sizes for 12 heads"),
        (
            {"ple.head_offsets": np.array([0, 601, 1208, 1821, 2438, 3057, 3688, 4990], BIG)},
            "read beyond the table of 4992 rows",
        ),
        (
            {"ple.layer_multipliers": np.array([1, 2, 1 << 62], BIG)},
            "multipliers that overflow 64 bits",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_impossible_metadata_is_refused(
    metadata: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=f"m.gguf: .*{reason}"):
        shape_of(tmp_path / "m.gguf", metadata)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ({NGRAM_TABLE: None}, f"{NGRAM_TABLE} is missing; --ngram-table names the file"),
        ({"blk.0.ssm_a": None}, "tensor blk.0.ssm_a is missing"),
        ({"blk.0.ssm_a": (7,)}, r"tensor blk.0.ssm_a is \[7\], \[6\] expected"),
        ({"blk.0.attn_q.weight": (8,)}, "tensor blk.0.attn_q.weight has no place"),
        ({"blk.4.attn_q.weight": (8,)}, "tensor blk.4.attn_q.weight has no place"),
        ({"token_embd.weight": None}, "token_embd.weight is missing"),
    ],
)
def test_tensors_that_do_not_belong_are_refused(
    tensors: dict[str, tuple[int, ...] | None], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=f"m.gguf: .*{reason}"):
        shape_of(tmp_path / "m.gguf", tensors=tensors)
