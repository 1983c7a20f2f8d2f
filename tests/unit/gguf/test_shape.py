"""Model shapes: what is read, and everything that does not fit together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelFileError
from engine.gguf.reader import open_gguf
from engine.gguf.shape import DecoderShape, model_shape
from engine.gguf.writer import write_gguf
from helpers.tiny_gguf import TinyModel, tensor_source, tiny_metadata, tiny_weights, write_model

DENSE = TinyModel(architecture="llama", layers=1)
MOE = TinyModel(layers=1)


def shape_of(
    path: Path,
    tiny: TinyModel = MOE,
    *,
    metadata: dict[str, object] | None = None,
    drop: str = "",
    resized: dict[str, TinyModel] | None = None,
) -> DecoderShape:
    """The shape of `tiny` with metadata and tensors changed.

    A key that begins with a dot is one of the architecture; a value of None leaves it out.
    """
    changed = tiny_metadata(tiny)
    for key, value in (metadata or {}).items():
        changed[tiny.architecture + key if key.startswith(".") else key] = value
    kept = {key: value for key, value in changed.items() if value is not None}
    weights = tiny_weights(tiny)
    weights.pop(drop, None)
    for name, other in (resized or {}).items():
        weights[name] = tiny_weights(other)[name]
    write_gguf(path, kept, [tensor_source(n, values, tiny) for n, values in weights.items()])
    with open_gguf(path) as model:
        found = model_shape(model)
    assert isinstance(found, DecoderShape)
    return found


def test_shape_of_a_dense_model(tmp_path: Path) -> None:
    assert shape_of(tmp_path / "m.gguf", DENSE) == DecoderShape(
        architecture="llama", name="tiny llama", vocab=267, layers=1, hidden=64, heads=4,
        kv_heads=2, head_dim=16, ff=64, experts=0, experts_used=0, expert_ff=0, context=512,
        rms_eps=float(np.float32(1e-6)), rope_base=10000.0, rope_dims=16, rope_factor=1.0,
        tied_output=False,
    )  # fmt: skip


def test_shape_of_a_mixture_of_experts(tmp_path: Path) -> None:
    tiny = replace(MOE, layers=3, experts=5, experts_used=3, ff=32, tied_output=True, vocab=300)
    shape = shape_of(tmp_path / "m.gguf", tiny)
    assert (shape.layers, shape.experts, shape.experts_used, shape.expert_ff) == (3, 5, 3, 32)
    assert (shape.ff, shape.vocab, shape.tied_output) == (0, 300, True)


def test_shape_fills_in_what_older_files_leave_out(tmp_path: Path) -> None:
    attention = (".attention.key_length", ".attention.value_length", ".rope.freq_base")
    left_out = ("general.name", ".expert_feed_forward_length", *attention)
    shape = shape_of(tmp_path / "older.gguf", metadata=dict.fromkeys(left_out))
    assert (shape.head_dim, shape.rope_base, shape.expert_ff) == (16, 10000.0, 64)
    assert shape.name == "older"


def test_shape_reads_linear_rope_scaling(tmp_path: Path) -> None:
    metadata: dict[str, object] = {".rope.scaling.type": "linear", ".rope.scaling.factor": 4.0}
    assert shape_of(tmp_path / "m.gguf", metadata=metadata).rope_factor == 4.0


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "unknown architecture": (
        {"general.architecture": "gpt9"},
        "unknown architecture 'gpt9'; known: llama, qwen3moe",
    ),
    "no architecture": ({"general.architecture": None}, "general.architecture is missing"),
    "architecture a number": ({"general.architecture": 7}, "is 7, not a string"),
    "no layers": ({".block_count": 0}, "block_count is 0, less than 1"),
    "too many layers": ({".block_count": 1025}, "impossible shape: 1025 layers"),
    "layers a string": ({".block_count": "2"}, "block_count is '2', not a whole number"),
    "layers true": ({".block_count": True}, "block_count is True, not a whole number"),
    "layers per layer": ({".block_count": [1, 2]}, "block_count is an array of 2"),
    "no hidden size": ({".embedding_length": None}, "embedding_length is missing"),
    "no context": ({".context_length": None}, "context_length is missing"),
    "no heads": ({".attention.head_count": 0}, "head_count is 0, less than 1"),
    "heads not shared": ({".attention.head_count_kv": 3}, "4 heads do not share 3 key heads"),
    "odd heads": (
        {".attention.key_length": 12, ".attention.value_length": 12},
        "heads of 12: not a multiple of 8",
    ),
    "values of another size": (
        {".attention.value_length": 8},
        "value_length 8 differs from key_length 16",
    ),
    "rotates too much": ({".rope.dimension_count": 18}, "18 rotating dimensions in heads of 16"),
    "rotates an odd number": ({".rope.dimension_count": 7}, "7 rotating dimensions"),
    "more experts used than there are": ({".expert_used_count": 9}, "9 of 8 experts used"),
    "no experts": ({".expert_count": 0}, "expert_count is 0, less than 1"),
    "epsilon negative": ({".attention.layer_norm_rms_epsilon": -1.0}, "epsilon -1.0"),
    "epsilon not finite": (
        {".attention.layer_norm_rms_epsilon": float("nan")},
        "layer_norm_rms_epsilon is not finite",
    ),
    "rope base zero": ({".rope.freq_base": 0.0}, "rope base 0.0"),
    "rope base infinite": ({".rope.freq_base": float("inf")}, "rope.freq_base is not finite"),
    "unknown scaling": ({".rope.scaling.type": "yarn"}, "is 'yarn'; none and linear are known"),
    "scaling without factor": ({".rope.scaling.type": "linear"}, "scaling.factor is missing"),
    "hidden size of another model": (
        {".embedding_length": 128},
        "tensor token_embd.weight is [64, 267], [128, 267] expected",
    ),
    "experts of another model": (
        {".expert_count": 4},
        "tensor blk.0.ffn_gate_inp.weight is [64, 8], [64, 4] expected",
    ),
    "a layer that is not there": ({".block_count": 2}, "tensor blk.1.attn_norm.weight is missing"),
}


@pytest.mark.parametrize(("metadata", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_shape_that_cannot_be_is_refused(
    metadata: dict[str, object], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "m.gguf"
    with pytest.raises(ModelFileError) as caught:
        shape_of(path, metadata=metadata)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("tiny", [DENSE, MOE], ids=["llama", "qwen3moe"])
def test_every_tensor_is_needed(tiny: TinyModel, tmp_path: Path) -> None:
    for name in tiny_weights(tiny):
        if name == "output.weight":
            assert shape_of(tmp_path / "m.gguf", tiny, drop=name).tied_output
            continue
        with pytest.raises(ModelFileError, match=f"tensor {name} is missing"):
            shape_of(tmp_path / "m.gguf", tiny, drop=name)


@pytest.mark.parametrize("tiny", [DENSE, MOE], ids=["llama", "qwen3moe"])
def test_every_tensor_must_have_its_size(tiny: TinyModel, tmp_path: Path) -> None:
    other = replace(tiny, hidden=72, ff=72, head_dim=24, vocab=280, experts=9)
    for name in tiny_weights(tiny):
        if name == "token_embd.weight":
            continue  # its rows say how large the vocabulary is
        with pytest.raises(ModelFileError, match=f"tensor {name} is .* expected"):
            shape_of(tmp_path / "m.gguf", tiny, resized={name: other})


def test_embedding_of_one_dimension_is_refused(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", MOE)
    weights = tiny_weights(MOE) | {"token_embd.weight": tiny_weights(MOE)["output_norm.weight"]}
    write_gguf(path, tiny_metadata(MOE), [tensor_source(n, v, MOE) for n, v in weights.items()])
    with (
        open_gguf(path) as model,
        pytest.raises(ModelFileError, match=r"token_embd\.weight"),
    ):
        model_shape(model)
