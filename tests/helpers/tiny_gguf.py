"""Writes tiny random models that are valid in every respect: what tests load, run and compare.

`tiny_weights` gives the same numbers as plain arrays, so that a test can build the same model with
another implementation. Weights are (outputs, inputs), the reverse of GGUF's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.gguf.cursor import ValueType
from engine.gguf.quants import dequantize, quantize
from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, Typed, write_gguf
from engine.text.vocabulary import BYTE_CHARACTERS, TokenType
from helpers.text_model import CHATML

Floats = NDArray[np.float32]
MERGES = ("t h", "th e", "Ġ the", "l l", "e r", "i n", "in g", "Ġ a")
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VOCAB_LEAST = 256 + len(MERGES) + len(SPECIALS)
UNQUANTISED = ("ffn_gate_inp",)  # routers stay F32, as real files have them


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """Sizes of the model. `ff` is the width of a dense layer, or of one expert."""

    architecture: str = "qwen3moe"
    seed: int = 0
    layers: int = 2
    hidden: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    ff: int = 64
    experts: int = 8
    experts_used: int = 2
    vocab: int = VOCAB_LEAST
    context: int = 512
    rope_base: float = 10000.0
    rms_eps: float = 1e-6
    type: GGMLType = GGMLType.F32  # of the matrices; F32, F16 and Q8_0 are exact or nearly so
    tied_output: bool = False

    @property
    def is_moe(self) -> bool:
        return self.architecture == "qwen3moe"


def write_tiny_model(
    path: Path, *, architecture: str = "qwen3moe", seed: int = 0, **options: Any
) -> Path:
    """Write a model with the sizes of `TinyModel(**options)`."""
    return write_model(path, TinyModel(architecture=architecture, seed=seed, **options))


def write_model(path: Path, model: TinyModel) -> Path:
    """Write `model`; the same sizes and seed give the same bytes."""
    sources = [tensor_source(name, values, model) for name, values in tiny_weights(model).items()]
    write_gguf(path, tiny_metadata(model), sources)
    return path


def tensor_source(name: str, values: Floats, model: TinyModel) -> TensorSource:
    """One tensor in the type that the file stores it in."""
    type = stored_type(name, values, model)
    return TensorSource(
        name=name,
        shape=tuple(reversed(values.shape)),
        type=type,
        produce=lambda: quantize(values, type),
    )


def stored_type(name: str, values: Floats, model: TinyModel) -> GGMLType:
    """Vectors and routers are F32 in every model."""
    plain = values.ndim == 1 or any(part in name for part in UNQUANTISED)
    return GGMLType.F32 if plain else model.type


def tiny_weights(model: TinyModel) -> dict[str, Floats]:
    """Tensor name -> (rows, cols), (experts, rows, cols) or (dim,) float32, before rounding."""
    random = np.random.default_rng(model.seed)
    return {name: _draw(random, name, shape) for name, shape in _shapes(model).items()}


def stored_weights(model: TinyModel) -> dict[str, Floats]:
    """`tiny_weights` as the file holds them: rounded to its type and expanded again."""
    weights = tiny_weights(model)
    types = {name: stored_type(name, values, model) for name, values in weights.items()}
    return {
        name: dequantize(quantize(values, types[name]), types[name]).reshape(values.shape)
        for name, values in weights.items()
    }


def tiny_metadata(model: TinyModel) -> dict[str, object]:
    """All metadata of the file, tokenizer and chat template included."""
    values: dict[str, object] = {
        "block_count": model.layers,
        "context_length": model.context,
        "embedding_length": model.hidden,
        "feed_forward_length": model.ff,
        "attention.head_count": model.heads,
        "attention.head_count_kv": model.kv_heads,
        "attention.key_length": model.head_dim,
        "attention.value_length": model.head_dim,
        "attention.layer_norm_rms_epsilon": model.rms_eps,
        "rope.freq_base": model.rope_base,
    }
    if model.is_moe:
        values |= {
            "expert_count": model.experts,
            "expert_used_count": model.experts_used,
            "expert_feed_forward_length": model.ff,
        }
    return {
        "general.architecture": model.architecture,
        "general.name": f"tiny {model.architecture}",
        **{f"{model.architecture}.{key}": value for key, value in values.items()},
        **_vocabulary(model.vocab),
    }


def _vocabulary(size: int) -> dict[str, object]:
    """Bytes, merges, control tokens; the rest of a larger vocabulary is unused."""
    if size < VOCAB_LEAST:
        raise ValueError(f"a vocabulary of {size}; the bytes and specials need {VOCAB_LEAST}")
    unused = [f"[unused {index}]" for index in range(size - VOCAB_LEAST)]
    merged = [merge.replace(" ", "") for merge in MERGES]
    tokens = [*BYTE_CHARACTERS, *merged, *SPECIALS, *unused]
    types = [TokenType.NORMAL] * (256 + len(merged)) + [TokenType.CONTROL] * len(SPECIALS)
    types += [TokenType.UNUSED] * len(unused)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": Typed(ValueType.I32, [int(type) for type in types]),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHATML,
    }


def _draw(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> Floats:
    """Norms near 1, embeddings of size 1, matrices that keep the size of what they multiply."""
    values = random.standard_normal(shape, dtype=np.float32)
    if len(shape) == 1:
        return values / np.float32(10) + np.float32(1)
    return values if name == "token_embd.weight" else values * np.float32(shape[-1] ** -0.5)


def _shapes(model: TinyModel) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (model.vocab, model.hidden),
        "output_norm.weight": (model.hidden,),
    }
    if not model.tied_output:
        shapes["output.weight"] = (model.vocab, model.hidden)
    for layer in range(model.layers):
        parts = _attention_shapes(model) | (_moe_shapes(model) if model.is_moe else _dense(model))
        shapes |= {f"blk.{layer}.{part}.weight": shape for part, shape in parts.items()}
    return shapes


def _attention_shapes(model: TinyModel) -> dict[str, tuple[int, ...]]:
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    return {
        "attn_norm": (model.hidden,),
        "attn_q": (queries, model.hidden),
        "attn_k": (keys, model.hidden),
        "attn_v": (keys, model.hidden),
        "attn_output": (model.hidden, queries),
        "ffn_norm": (model.hidden,),
    }


def _moe_shapes(model: TinyModel) -> dict[str, tuple[int, ...]]:
    return {
        "attn_q_norm": (model.head_dim,),
        "attn_k_norm": (model.head_dim,),
        "ffn_gate_inp": (model.experts, model.hidden),
        "ffn_gate_exps": (model.experts, model.ff, model.hidden),
        "ffn_up_exps": (model.experts, model.ff, model.hidden),
        "ffn_down_exps": (model.experts, model.hidden, model.ff),
    }


def _dense(model: TinyModel) -> dict[str, tuple[int, ...]]:
    return {
        "ffn_gate": (model.ff, model.hidden),
        "ffn_up": (model.ff, model.hidden),
        "ffn_down": (model.hidden, model.ff),
    }
