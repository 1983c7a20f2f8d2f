"""What every architecture's shape is checked for: sizes that can be, tensors that are there."""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import ModelFileError
from engine.gguf.reader import GGUFModel

LAYERS_MAX = 1024
Dimensions = tuple[int, ...]  # in GGUF order: row length first


def refuse_impossible(model: GGUFModel, problems: Mapping[str, bool]) -> None:
    """Raise ModelFileError for the first problem that is there."""
    for problem, present in problems.items():
        if present:
            raise ModelFileError(model.path, f"impossible shape: {problem}")


def head_problems(*, heads: int, kv_heads: int, head_dim: int, rope_dims: int) -> dict[str, bool]:
    """What can be wrong with the heads of an attention."""
    return {
        f"{heads} heads do not share {kv_heads} key heads": heads % kv_heads != 0,
        f"heads of {head_dim}: not a multiple of 8 up to 1024": head_dim % 8 != 0
        or head_dim > 1024,
        f"{rope_dims} rotating dimensions in heads of {head_dim}": rope_dims > head_dim
        or rope_dims % 2 != 0,
    }


def vocabulary(model: GGUFModel) -> int:
    """Rows of the token embedding."""
    embedding = model.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelFileError(model.path, "tensor token_embd.weight is missing")
    return embedding.shape[1]


def check_tensors(
    model: GGUFModel, required: Mapping[str, Dimensions], optional: Mapping[str, Dimensions]
) -> None:
    """A tensor that no code reads, such as a bias, is refused: without it the output is another."""
    for name in model.tensors:
        if name not in required and name not in optional:
            raise ModelFileError(
                model.path, f"tensor {name} has no place in architecture {model.architecture}"
            )
    for name, dimensions in {**required, **optional}.items():
        tensor = model.tensors.get(name)
        if tensor is None and name in optional:
            continue
        if tensor is None:
            raise ModelFileError(model.path, f"tensor {name} is missing")
        if tensor.shape != dimensions:
            found, want = list(tensor.shape), list(dimensions)
            raise ModelFileError(model.path, f"tensor {name} is {found}, {want} expected")
