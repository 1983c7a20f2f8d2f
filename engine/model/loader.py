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
from engine.kernels.ops import QuantMatrix
from engine.kernels.support import check_type


class Weights:
    """Looks tensors up by GGUF name."""

    def __init__(self, model: GGUFModel) -> None:
        self.file = model

    def has(self, name: str) -> bool:
        return f"{name}.weight" in self.file.tensors

    def floats(self, name: str) -> Tensor:
        """A small tensor as float32, the row length last; `name` is whole."""
        tensor = self._known(name)
        values = dequantize(self.file.data(name), tensor.type).astype(np.float32)
        return torch.from_numpy(values.reshape(tensor.shape[::-1]))

    def matrix(self, name: str) -> QuantMatrix:
        """A matrix (rows, cols), a stack of them when the tensor has three dimensions, or one row.

        `name` is without the `.weight` suffix.
        """
        tensor = self._known(f"{name}.weight")
        cols, rows, stack, *_ = (*tensor.shape, 1, 1)
        return QuantMatrix(
            data=self.file.data(tensor.name),
            type=tensor.type,
            rows=rows,
            cols=cols,
            num_experts=stack,
        )

    def _known(self, name: str) -> TensorInfo:
        """The tensor, if it is of a type that can be computed with."""
        tensor = self.file.tensors[name]
        check_type(self.file.path, tensor.name, tensor.type)
        return tensor
