"""Parts that architectures are built from: linear, norm, rotary positions, dense feed-forward."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.gguf.shape import DecoderShape, ModelShape
from engine.kernels import ops
from engine.kernels.ops import Activations, QuantMatrix
from engine.model.loader import Weights
from engine.model.probe import Probe


@dataclass(frozen=True, slots=True)
class Linear:
    """x (tokens, cols) -> (tokens, rows)."""

    weight: QuantMatrix
    activations: Activations

    def __call__(self, x: Tensor) -> Tensor:
        return ops.linear(x, self.weight, self.activations)


@dataclass(frozen=True, slots=True)
class Linears:
    """Several of the same x (tokens, cols), in one call: [(tokens, rows), ...]."""

    weights: tuple[QuantMatrix, ...]
    activations: Activations

    def __call__(self, x: Tensor) -> list[Tensor]:
        return ops.linears(x, self.weights, self.activations)


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
    probe: Probe = field(default_factory=Probe)

    @property
    def rms_eps(self) -> float:
        return self.shape.rms_eps

    def linear(self, name: str) -> Linear:
        """`name` without the `.weight` suffix.

        Where experts round activations to 8 bits the trunk rounds to 12: its errors reach every
        later layer and the router, and most of its time is reading weights anyway.
        """
        rounded = self.activations is not Activations.F32
        mode = Activations.INT16 if rounded else Activations.F32
        return Linear(self.weights.matrix(name), mode)

    def linears(self, *names: str) -> Linears:
        """As `linear`, several that see the same input."""
        each = [self.linear(name) for name in names]
        return Linears(tuple(one.weight for one in each), each[0].activations)

    def router(self, name: str) -> Linear:
        """Exact in every mode: the router decides which weights run at all."""
        return Linear(self.weights.matrix(name), Activations.F32)

    def norm(self, name: str) -> RMSNorm:
        return RMSNorm(self.weights.floats(f"{name}.weight"), self.rms_eps)

    def head(self) -> Linear:
        """The output matrix, which may be the embedding's."""
        return self.linear("token_embd" if self.shape.tied_output else "output")


def inverse_frequencies(base: float, dims: int) -> Tensor:
    """(dims / 2,) float64, radians per position.

    Source: RoFormer (arXiv 2104.09864).
    """
    exponents = np.arange(0, dims, 2, dtype=np.float64) / dims
    return torch.from_numpy(base**-exponents)


def scaled_frequencies(shape: DecoderShape, weights: Weights) -> Tensor:
    """(rope_dims / 2,) float64, radians per position, as the file scales them.

    Linear scaling divides positions; `rope_freqs`, where a file has it, divides each frequency.
    Source: llama.cpp for rope_freqs.
    """
    frequencies = inverse_frequencies(shape.rope_base, shape.rope_dims) / shape.rope_factor
    if weights.has("rope_freqs"):
        frequencies = frequencies / weights.floats("rope_freqs.weight").double()
    return frequencies.contiguous()
