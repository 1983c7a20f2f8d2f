"""The one door to routed experts.

A model layer routes its tokens and then calls `ExpertStore.compute(layer, …)`; it never sees where
an expert's bytes lie. Today there is one store, `MappedExperts`, which computes every expert on
the CPU where it lies in the mapped file. Tiers come in behind this door: a store that finds an
expert in a device slot, in host memory or on disk, and splits a call, has the same `compute`.

What the door promises, and tiers must keep: a token's result has the same bits wherever its experts
lie and whoever shares the step; `compute` returns when the sum is ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.experts.trace import TraceShape
from engine.kernels import ops
from engine.kernels.ops import Activations, QuantMatrix


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerExperts:
    """The expert stacks of one layer: gate and up (ff, hidden), down (hidden, ff) per expert."""

    gate: QuantMatrix
    up: QuantMatrix
    down: QuantMatrix

    @property
    def num_experts(self) -> int:
        return self.gate.num_experts

    @property
    def bytes_per_expert(self) -> int:
        total = self.gate.num_bytes + self.up.num_bytes + self.down.num_bytes
        return total // self.num_experts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertUse:
    """What the calls since the last `take_use` needed: those of one step.

    counts  (layers, experts) int32, tokens of each expert
    """

    counts: NDArray[np.int32]
    bytes_read: int = 0

    @property
    def unique_per_layer(self) -> float:
        """Different experts, mean of the layers that had any."""
        unique = np.count_nonzero(self.counts, axis=1)
        layers = np.count_nonzero(unique)
        return float(unique.sum() / layers) if layers else 0.0


class ExpertStore(Protocol):
    """Computes the routed experts of any layer."""

    def compute(self, layer: int, x: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        """x (tokens, hidden), ids (tokens, k) int32, weights (tokens, k) -> (tokens, hidden)."""
        ...

    def take_use(self) -> ExpertUse:
        """What was used since the last call; starts counting anew."""
        ...

    @property
    def shape(self) -> TraceShape:
        """How many experts there are in each layer, and their sizes."""
        ...


class MappedExperts:
    """Every expert is computed on the CPU from the mapped file; the page cache is the only tier."""

    def __init__(self, layers: Sequence[LayerExperts], activations: Activations) -> None:
        self._layers = layers
        self._activations = activations
        experts = max((one.num_experts for one in layers), default=0)
        self._counts = torch.zeros(len(layers), experts, dtype=torch.int32)
        self._bytes = np.array([experts.bytes_per_expert for experts in layers])

    def compute(self, layer: int, x: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
        experts = self._layers[layer]
        return ops.expert_ffn(
            *(x, experts.gate, experts.up, experts.down, ids, weights, self._activations),
            counts=self._counts[layer],
        )

    def take_use(self) -> ExpertUse:
        counts = self._counts.numpy().copy()
        self._counts.zero_()
        bytes_read = int(np.count_nonzero(counts, axis=1) @ self._bytes)
        return ExpertUse(counts=counts, bytes_read=bytes_read)

    @property
    def shape(self) -> TraceShape:
        sizes = tuple(int(size) for size in self._bytes)
        return TraceShape(experts=self._counts.shape[1], expert_bytes=sizes)
