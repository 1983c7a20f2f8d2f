"""Products with quantised weights: linear layers, embedding rows, expert feed-forwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import ShapeError
from engine.gguf.types import GGMLType, row_bytes
from engine.kernels import _native
from engine.kernels.ops.checks import shaped
from engine.kernels.ops.record import empty


class Activations(Enum):
    """How activations meet quantised weights; float weights always meet float activations."""

    F32 = "f32"  # weights expanded block by block; the reference
    INT8 = "int8"  # rounded to int8 per 32 values
    INT16 = "int16"  # rounded to 12 bits per 32 values, a sixteenth of the error of int8

    @property
    def levels(self) -> int:
        """Steps to either side of zero that a rounded activation can take; 0: not rounded."""
        return LEVELS[self]


LEVELS = {Activations.F32: 0, Activations.INT8: 127, Activations.INT16: 2032}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantMatrix:
    """A weight matrix, or a stack of one per expert, as it lies in the file.

    data           uint8, a view of the mapping from the first row of the first expert to the last
                   row of the last one; kept alive, never copied
    expert_stride  bytes from one expert's first row to the next one's; 0: they touch
    """

    data: NDArray[np.uint8]
    type: GGMLType
    rows: int  # outputs
    cols: int  # inputs
    num_experts: int = 1
    expert_stride: int = 0
    native: tuple[int, int, int, int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _native.has_type(int(self.type)):
            raise ShapeError(f"no kernels for weights of type {self.type.name}")
        if min(self.rows, self.cols, self.num_experts) < 1:
            raise ShapeError(
                f"{self.num_experts} matrices of {self.rows} rows, {self.cols} columns"
            )
        try:
            expert_bytes = self.rows * row_bytes(self.type, self.cols)
        except ValueError as error:
            raise ShapeError(f"cols: {error}") from None
        stride = self.expert_stride or expert_bytes
        if stride < expert_bytes:
            raise ShapeError(f"expert_stride: {stride} bytes, an expert has {expert_bytes}")
        if self.data.dtype != np.uint8 or self.data.ndim != 1 or not self.data.flags.c_contiguous:
            raise ShapeError("weight data must be one contiguous row of bytes")
        expected = (self.num_experts - 1) * stride + expert_bytes
        if self.data.size != expected:
            raise ShapeError(f"weight data has {self.data.size} bytes, {expected} expected")
        address = self.data.__array_interface__["data"][0]
        sizes = (address, int(self.type), self.rows, self.cols, self.num_experts, stride)
        object.__setattr__(self, "native", sizes)

    @property
    def expert_bytes(self) -> int:
        """Bytes of the rows of one expert."""
        return self.rows * row_bytes(self.type, self.cols)

    @property
    def num_bytes(self) -> int:
        """Bytes of the rows of all experts, without what lies between them."""
        return self.num_experts * self.expert_bytes

    def row_range(self, first: int, count: int) -> QuantMatrix:
        """Rows first .. first + count - 1 of every expert, a view of the same bytes.

        Raises ShapeError for rows that are not there.
        """
        if first < 0 or count < 1 or first + count > self.rows:
            raise ShapeError(f"row_range: {count} rows from {first} on, of {self.rows}")
        stride = self.expert_stride or self.expert_bytes
        start = first * row_bytes(self.type, self.cols)
        size = (self.num_experts - 1) * stride + count * row_bytes(self.type, self.cols)
        data = self.data[start : start + size]
        return replace(self, data=data, rows=count, expert_stride=stride)


def linear(x: Tensor, w: QuantMatrix, activations: Activations = Activations.F32) -> Tensor:
    """x (tokens, cols) -> (tokens, rows), x @ w.T. Float weights see float activations."""
    tokens, _ = shaped("x", x, (None, w.cols))
    out = empty(tokens, w.rows)
    _native.linear(x.data_ptr(), tokens, w.native, activations.levels, out.data_ptr())
    return out


def linears(
    x: Tensor, weights: Sequence[QuantMatrix], activations: Activations = Activations.F32
) -> list[Tensor]:
    """`linear` of the same x (tokens, cols) with each matrix, in one go: [(tokens, rows), ...]."""
    tokens, cols = shaped("x", x, (None, None))
    if any(w.cols != cols for w in weights):
        raise ShapeError(f"weights: columns {[w.cols for w in weights]}, x has {cols}")
    out = [empty(tokens, w.rows) for w in weights]
    _native.linears(
        *(x.data_ptr(), tokens, [w.native for w in weights], activations.levels),
        [y.data_ptr() for y in out],
    )
    return out


def gated_ffn(
    y: Tensor,
    x: Tensor,
    gate: QuantMatrix,
    up: QuantMatrix,
    down: QuantMatrix,
    share: QuantMatrix,
    activations: Activations = Activations.F32,
) -> None:
    """y += sigmoid(share x) * down(silu(gate x) * up x), in place.

    x, y      (tokens, hidden)
    gate, up  (ff, hidden)
    down      (hidden, ff)
    share     (1, hidden), how much of it each token takes
    """
    tokens, hidden = shaped("x", x, (None, gate.cols))
    shaped("y", y, (tokens, hidden))
    sizes = {"up": up, "down": down, "share": share}
    expected = {"up": (gate.rows, hidden), "down": (hidden, gate.rows), "share": (1, hidden)}
    for name, w in sizes.items():
        if (w.rows, w.cols) != expected[name]:
            raise ShapeError(f"{name}: {(w.rows, w.cols)}, {expected[name]} expected")
    _native.gated_ffn(
        *(x.data_ptr(), tokens, gate.native, up.native, down.native, share.native),
        *(activations.levels, y.data_ptr()),
    )


def embedding(ids: Tensor, w: QuantMatrix) -> Tensor:
    """ids (tokens,) int64 -> (tokens, cols), the rows of w."""
    (tokens,) = shaped("ids", ids, (None,), torch.int64)
    if tokens and not 0 <= int(ids.min()) <= int(ids.max()) < w.rows:
        raise ShapeError(f"ids: a row outside 0..{w.rows - 1}")
    out = empty(tokens, w.cols)
    _native.embedding(ids.data_ptr(), tokens, w.native, out.data_ptr())
    return out


def expert_ffn(
    x: Tensor,
    gate: QuantMatrix,
    up: QuantMatrix,
    down: QuantMatrix,
    ids: Tensor,
    weights: Tensor,
    activations: Activations = Activations.F32,
    counts: Tensor | None = None,
) -> Tensor:
    """Sum over a token's experts of weight * down(silu(gate x) * up x).

    x        (tokens, hidden)
    gate, up stacks of (ff, hidden); down a stack of (hidden, ff)
    ids      (tokens, k) int32; a negative id is skipped
    weights  (tokens, k)
    counts   (experts,) int32, to each of which the number of its tokens is added
    returns  (tokens, hidden), summed in the order of ids
    """
    tokens, hidden = shaped("x", x, (None, gate.cols))
    _, k = shaped("ids", ids, (tokens, None), torch.int32)
    shaped("weights", weights, (tokens, k))
    sizes = (gate.rows, hidden, gate.num_experts)
    if (up.rows, up.cols, up.num_experts) != sizes:
        raise ShapeError(f"up: {(up.rows, up.cols, up.num_experts)}, gate has {sizes}")
    if (down.cols, down.rows, down.num_experts) != sizes:
        raise ShapeError(f"down: {(down.cols, down.rows, down.num_experts)}, gate has {sizes}")
    if counts is not None:
        shaped("counts", counts, (gate.num_experts,), torch.int32)
    if ids.numel() and int(ids.max()) >= gate.num_experts:
        raise ShapeError(f"ids: an expert beyond {gate.num_experts - 1}")
    out = empty(tokens, hidden)
    _native.expert_ffn(
        *(x.data_ptr(), tokens, k, gate.native, up.native, down.native),
        *(ids.data_ptr(), weights.data_ptr(), activations.levels, out.data_ptr()),
        0 if counts is None else counts.data_ptr(),
    )
    return out


def dequantize(w: QuantMatrix) -> Tensor:
    """(num_experts * rows, cols), the exact float32 values of w; for tests and small tables."""
    out = empty(w.num_experts * w.rows, w.cols)
    _native.dequantize(w.native, out.data_ptr())
    return out
