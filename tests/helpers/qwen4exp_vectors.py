"""Tiny `qwen4exp` models and reference values: tests/golden/vectors/qwen4exp.

The models are random, with the released model's structure; two are stored compressed. golden.npz
and quant_refs.npz hold float64 logits and traces which transformers' Qwen4ExpForCausalLM and
llama.cpp b11549 agree with to 1.2e-5 (draft block: llama.cpp alone).
"""

from __future__ import annotations

import lzma
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.gguf.reader import GGUFModel, open_gguf
from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, write_gguf

VECTORS = Path(__file__).parents[1] / "golden" / "vectors" / "qwen4exp"
QUANTISED = ("Q2_0", "IQ2_XXS")
# RMS difference between llama.cpp b11549 and float64 logits on the same files and prompt.
LLAMACPP_RMS = {"Q2_0": 0.0666, "IQ2_XXS": 0.0959}


def quantised(type: str) -> Path:
    """A model whose matrices are of that type where their row length allows."""
    return VECTORS / f"tiny-{type}.gguf"


def unpacked(name: str, folder: Path) -> Path:
    """`tiny-f16` or `tiny-mtp-f16`, which holds the draft block alone."""
    path = folder / f"{name}.gguf"
    path.write_bytes(lzma.decompress((VECTORS / f"{name}.gguf.xz").read_bytes()))
    return path


def arrays(name: str) -> dict[str, NDArray[np.generic]]:
    """The arrays of an archive."""
    with np.load(VECTORS / f"{name}.npz") as archive:
        return dict(archive)


def allowed(packed: NDArray[np.generic], tokens: int) -> NDArray[np.bool_]:
    """(tokens, tokens): which positions each token attends to."""
    bits = np.unpackbits(np.asarray(packed, np.uint8), axis=1)
    return bits[:, :tokens].astype(np.bool_)


def rewritten(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[int, ...] | None],
) -> Path:
    """The tiny Q2_0 model with metadata and tensors changed; None leaves one out.

    Keys are those behind `qwen4exp.`; a tensor that is given a shape holds F32 zeros.
    """
    with open_gguf(quantised("Q2_0")) as model:
        changed = dict(model.metadata) | {f"qwen4exp.{key}": v for key, v in metadata.items()}
        kept = {key: value for key, value in changed.items() if value is not None}
        write_gguf(path, kept, list(_sources(model, tensors)))
    return path


def _sources(model: GGUFModel, changed: Mapping[str, tuple[int, ...] | None]) -> list[TensorSource]:
    sources = []
    for name, tensor in model.tensors.items():
        if name not in changed:
            produce = partial(np.array, model.data(name))
            sources.append(
                TensorSource(name=name, shape=tensor.shape, type=tensor.type, produce=produce)
            )
    for name, shape in changed.items():
        if shape is not None:
            produce = partial(np.zeros, 4 * int(np.prod(shape)), np.uint8)
            sources.append(TensorSource(name=name, shape=shape, type=GGMLType.F32, produce=produce))
    return sources
