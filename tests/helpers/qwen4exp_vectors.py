"""Tiny `qwen4exp` models and reference values: tests/golden/vectors/qwen4exp.

The models are random, with the released model's structure; two are stored compressed. golden.npz
and quant_refs.npz hold float64 logits and traces which transformers' Qwen4ExpForCausalLM and
llama.cpp b11549 agree with to 1.2e-5 (draft block: llama.cpp alone).
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
