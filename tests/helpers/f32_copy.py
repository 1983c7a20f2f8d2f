"""A copy of a model file with every weight expanded to F32: the same function, other bytes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.gguf.quants import dequantize
from engine.gguf.reader import GGUFModel, TensorInfo, open_gguf
from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, write_gguf

FILE_TYPE_ALL_F32 = 0  # `general.file_type` in gguf.md


def write_f32_copy(source: Path, path: Path) -> Path:
    """Write the copy of `source` to `path`."""
    with open_gguf(source) as model:
        tensors = [
            TensorSource(
                name=tensor.name,
                shape=tensor.shape,
                type=GGMLType.F32,
                produce=partial(expanded, model, tensor),
            )
            for tensor in model.tensors.values()
        ]
        write_gguf(path, {**model.metadata, "general.file_type": FILE_TYPE_ALL_F32}, tensors)
    return path


def expanded(model: GGUFModel, tensor: TensorInfo) -> NDArray[np.float32]:
    """The weights of a tensor in numpy's order: (rows, cols), (experts, rows, cols) or (dim,)."""
    values = dequantize(model.data(tensor.name), tensor.type)
    return values.reshape(tuple(reversed(tensor.shape))).astype(np.float32)
