"""What a model is: its sizes from metadata, checked against the tensors that are there.

`model_shape(model)` is called once when a model is loaded and refuses by name whatever cannot be
right. A new architecture adds a module with its shape, and its reader to `READERS`.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import ModelFileError
from engine.gguf.reader import GGUFModel
from engine.gguf.shape.decoder import DecoderShape, read_decoder
from engine.gguf.shape.qwen4exp import NgramShape, Qwen4ExpShape, read_qwen4exp

__all__ = ["DecoderShape", "ModelShape", "NgramShape", "Qwen4ExpShape", "model_shape"]

ModelShape = DecoderShape | Qwen4ExpShape

READERS: dict[str, Callable[[GGUFModel], ModelShape]] = {
    "llama": read_decoder,
    "qwen3moe": read_decoder,
    "qwen4exp": read_qwen4exp,
}


def model_shape(model: GGUFModel) -> ModelShape:
    """Read and check the shape. Raises ModelFileError for anything that does not fit together."""
    architecture = model.architecture
    if architecture not in READERS:
        known = ", ".join(sorted(READERS))
        raise ModelFileError(model.path, f"unknown architecture {architecture!r}; known: {known}")
    return READERS[architecture](model)
