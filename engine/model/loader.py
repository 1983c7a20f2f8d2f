"""From tensor names to parameters: views of the mapped file, never copies.

Used by the architectures when a model is built. Norms and other small float tensors become torch
tensors; matrices stay quantised bytes.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine.gguf.quants import dequantize
from engine.gguf.reader import GGUFModel, TensorInfo
from engine.gguf.types import GGMLType
from engine.kernels.ops import QuantMatrix
from engine.kernels.support import check_type


class Weights:
    """Looks tensors up by GGUF name, without the `.weight` suffix."""

    def __init__(self, model: GGUFModel) -> None:
        self._model = model

    def has(self, name: str) -> bool:
        return f"{name}.weight" in self._model.tensors

    def vector(self, name: str) -> Tensor:
        """(n,) float32, converted if the file holds another float type."""
        tensor = self._known(name)
        raw = self._model.data(tensor.name)
        return torch.from_numpy(dequantize(raw, tensor.type).astype(np.float32))

    def matrix(self, name: str) -> QuantMatrix:
        """A matrix (rows, cols), or a stack of them when the tensor has three dimensions."""
        tensor = self._known(name)
        cols, rows, *stack = tensor.shape
        return QuantMatrix(
            data=self._model.data(tensor.name),
            type=GGMLType(tensor.type),
            rows=rows,
            cols=cols,
            num_experts=stack[0] if stack else 1,
        )

    def _known(self, name: str) -> TensorInfo:
        """The tensor, if it is of a type that can be computed with."""
        tensor = self._model.tensors[f"{name}.weight"]
        check_type(self._model.path, tensor.name, tensor.type)
        return tensor
