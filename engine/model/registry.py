"""Architecture names and the classes that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from engine.experts.store import ExpertStore
from engine.gguf.shape import ModelShape
from engine.kernels.ops import Activations
from engine.kv.pool import KVPool
from engine.kv.tables import StepPlaces
from engine.model.llama import Llama
from engine.model.loader import Weights
from engine.model.qwen3moe import Qwen3MoE


class Model(Protocol):
    """What a step needs of an architecture."""

    @property
    def experts(self) -> ExpertStore | None: ...

    def forward(self, ids: Tensor, places: StepPlaces, pool: KVPool) -> Tensor:
        """ids (tokens,) int64 -> (tokens, hidden)."""
        ...

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, hidden) -> (rows, vocab)."""
        ...


BUILDERS: dict[str, Callable[[ModelShape, Weights, Activations], Model]] = {
    "llama": Llama.build,
    "qwen3moe": Qwen3MoE.build,
}
