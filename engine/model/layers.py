"""Parts that architectures are built from: linear, norm, rotary positions, dense feed-forward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.gguf.shape import ModelShape
from engine.kernels import ops
from engine.kernels.ops import Activations, QuantMatrix
from engine.model.loader import Weights


@dataclass(frozen=True, slots=True)
class Linear:
    """x (tokens, cols) -> (tokens, rows)."""

    weight: QuantMatrix
    activations: Activations

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.activations)


@dataclass(frozen=True, slots=True)
class RMSNorm:
    """Over the last axis."""

    weight: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return ops.rms_norm(x, self.weight, self.eps)


@dataclass(frozen=True, slots=True)
class DenseFFN:
    """down(silu(gate x) * up x); x (tokens, hidden)."""

    gate: Linear
    up: Linear
    down: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.down(ops.swiglu(self.gate(x), self.up(x)))


@dataclass(frozen=True, slots=True)
class Parts:
    """Makes parts of a model from its weights; used while an architecture is built."""

    shape: ModelShape
    weights: Weights
    activations: Activations

    def linear(self, name: str) -> Linear:
        """`name` without the `.weight` suffix."""
        return Linear(self.weights.matrix(name), self.activations)

    def router(self, name: str) -> Linear:
        """Exact in every mode: the router decides which weights run at all."""
        return Linear(self.weights.matrix(name), Activations.F32)

    def norm(self, name: str) -> RMSNorm:
        return RMSNorm(self.weights.vector(name), self.shape.rms_eps)

    def head(self) -> Linear:
        """The output matrix, which may be the embedding's."""
        return self.linear("token_embd" if self.shape.tied_output else "output")


def inverse_frequencies(shape: ModelShape, weights: Weights) -> Tensor:
    """(rope_dims / 2,) float64, radians per position.

    Linear scaling divides positions; `rope_freqs`, where a file has it, divides each frequency.
    Source: RoFormer (arXiv 2104.09864) for the base; llama.cpp for rope_freqs.
    """
    exponents = np.arange(0, shape.rope_dims, 2, dtype=np.float64) / shape.rope_dims
    frequencies = torch.from_numpy(shape.rope_base**-exponents / shape.rope_factor)
    if weights.has("rope_freqs"):
        frequencies = frequencies / weights.vector("rope_freqs").double()
    return frequencies.contiguous()
