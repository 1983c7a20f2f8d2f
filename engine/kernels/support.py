"""Which tensor types can be computed with; asked before and while a model is built. No torch."""

from __future__ import annotations

from pathlib import Path

from engine.errors import ModelFileError
from engine.gguf.types import GGMLType
from engine.kernels import _native


def check_type(path: Path, tensor: str, type: GGMLType) -> None:
    """Raise ModelFileError for a tensor of a type without kernels."""
    if not _native.has_type(int(type)):
        reason = f"tensor {tensor} is of type {type.name}, which has no kernels"
        raise ModelFileError(path, reason)
