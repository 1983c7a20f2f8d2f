"""Weights of a model file as the architectures ask for them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.errors import ModelFileError
from engine.gguf.quants import quantize
from engine.gguf.reader import open_gguf
from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, write_gguf
from engine.kernels import ops
from engine.model.loader import Weights
from helpers.tiny_gguf import (
    TinyModel,
    stored_weights,
    tensor_source,
    tiny_metadata,
    tiny_weights,
    write_model,
)

TINY = TinyModel(layers=1, type=GGMLType.Q8_0)


def test_matrices_are_views_of_the_file(tmp_path: Path) -> None:
    with open_gguf(write_model(tmp_path / "m.gguf", TINY)) as model:
        matrix = Weights(model).matrix("blk.0.ffn_up_exps")
        assert np.shares_memory(matrix.data, model.data("blk.0.ffn_up_exps.weight"))
        assert (matrix.num_experts, matrix.rows, matrix.cols) == (8, 64, 64)
        expected = stored_weights(TINY)["blk.0.ffn_up_exps.weight"].reshape(8 * 64, 64)
        assert np.array_equal(ops.dequantize(matrix).numpy(), expected)


@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.F16, GGMLType.BF16])
def test_vectors_of_any_float_type_become_float32(type: GGMLType, tmp_path: Path) -> None:
    values = np.arange(8, dtype=np.float32)  # exact in each of them
    source = TensorSource(
        name="n.weight", shape=(8,), type=type, produce=lambda: quantize(values, type)
    )
    write_gguf(tmp_path / "m.gguf", {}, [source])
    with open_gguf(tmp_path / "m.gguf") as model:
        vector = Weights(model).floats("n.weight")
    assert vector.dtype is torch.float32
    assert vector.tolist() == values.tolist()


@pytest.mark.parametrize("name", ["output_norm", "blk.0.attn_q", "blk.0.ffn_gate_inp"])
def test_tensor_of_a_type_without_kernels_is_refused(name: str, tmp_path: Path) -> None:
    path, sources = tmp_path / "m.gguf", []
    plain = replace(TINY, type=GGMLType.F32)
    for key, values in tiny_weights(plain).items():
        source = tensor_source(key, values, plain)
        sources.append(replace(source, type=GGMLType.I32) if key == f"{name}.weight" else source)
    write_gguf(path, tiny_metadata(plain), sources)
    with open_gguf(path) as model:
        weights = Weights(model)
        whole = f"{name}.weight"
        read = partial(weights.floats, whole) if "norm" in name else partial(weights.matrix, name)
        with pytest.raises(ModelFileError, match=rf"{name}\.weight is of type I32"):
            read()
