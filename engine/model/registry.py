"""Shapes of models and the classes that run them."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from engine.experts.store import ExpertStore
from engine.gguf.reader import GGUFModel
from engine.gguf.shape import DecoderShape, ModelShape, Qwen4ExpShape
from engine.kernels.ops import Activations
from engine.kv.memory import SequenceMemory
from engine.kv.tables import StepPlaces
from engine.model.indexed_attention import IndexUse
from engine.model.llama import Llama
from engine.model.loader import Weights
from engine.model.qwen3moe import Qwen3MoE
from engine.model.qwen4exp import Qwen4Exp
from engine.ngram.table import NgramTable


class Draft(Protocol):
    """A block that guesses tokens ahead of the model."""

    def forward(
        self, wide: Tensor, ids: Tensor, places: StepPlaces, memory: SequenceMemory
    ) -> Tensor:
        """wide (tokens, width) at positions, ids (tokens,) of those after -> (tokens, width)."""
        ...

    def logits(self, wide: Tensor) -> Tensor:
        """(rows, width) -> (rows, vocab)."""
        ...


class Model(Protocol):
    """What a step needs of an architecture."""

    @property
    def experts(self) -> ExpertStore | None: ...

    @property
    def draft(self) -> Draft | None: ...

    @property
    def index_use(self) -> IndexUse | None: ...

    @property
    def ngram_table(self) -> NgramTable | None: ...

    def forward(self, ids: Tensor, places: StepPlaces, memory: SequenceMemory) -> Tensor:
        """ids (tokens,) int64 -> (tokens, hidden), before the final norm.

        The state of the step's sequences has moved on by their tokens.
        """
        ...

    def logits(self, x: Tensor) -> Tensor:
        """x (rows, hidden) -> (rows, vocab)."""
        ...

    def close(self) -> None:
        """Give back threads and files that are the model's own."""
        ...


def build_model(shape: ModelShape, file: GGUFModel, activations: Activations) -> Model:
    """The model of a file. Parameters are views of its mapping."""
    weights = Weights(file)
    match shape:
        case DecoderShape(architecture="qwen3moe"):
            return Qwen3MoE.build(shape, weights, activations)
        case DecoderShape():
            return Llama.build(shape, weights, activations)
        case Qwen4ExpShape():
            return Qwen4Exp.build(shape, weights, activations)
