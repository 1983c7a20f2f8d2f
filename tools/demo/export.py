"""Writes a trained demo model as GGUF, in a chosen precision."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import libgguf
import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from demo.model import DemoModel
from demo.vocabulary import SPECIALS

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.gguf.cursor import ValueType
from engine.gguf.types import GGMLType, row_bytes
from engine.gguf.writer import TensorSource, Typed, write_gguf

NORMAL, CONTROL = 1, 3  # tokenizer.ggml.token_type
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def _mix(name: str) -> GGMLType:
    """Down rows are 128 wide, too short for K-quants; embeddings and attention matter most."""
    if "_exps" in name:
        return GGMLType.Q8_0 if "down" in name else GGMLType.Q4_K
    return GGMLType.Q8_0


RECIPES: dict[str, Callable[[str], GGMLType]] = {
    "f32": lambda name: GGMLType.F32,
    "f16": lambda name: GGMLType.F16,
    "q8": lambda name: GGMLType.Q8_0,
    "mix": _mix,
}


def write(path: Path, model: DemoModel, tokenizer: Tokenizer, recipe: str) -> None:
    """Write `model` to `path`. Norms and routers stay F32 in every recipe."""
    tensors = [_source(name, tensor, RECIPES[recipe]) for name, tensor in _tensors(model).items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    write_gguf(partial, {**_metadata(model, recipe), **_vocabulary(tokenizer)}, tensors)
    partial.replace(path)


def _tensors(model: DemoModel) -> dict[str, torch.Tensor]:
    named = {
        "token_embd.weight": model.embed.weight,
        "output_norm.weight": model.norm.weight,
        "output.weight": model.head.weight,
    }
    for index, layer in enumerate(model.layers):
        parts = {
            "attn_norm": layer.attn_norm.weight,
            "attn_q": layer.attn.q.weight,
            "attn_k": layer.attn.k.weight,
            "attn_v": layer.attn.v.weight,
            "attn_q_norm": layer.attn.q_norm.weight,
            "attn_k_norm": layer.attn.k_norm.weight,
            "attn_output": layer.attn.o.weight,
            "ffn_norm": layer.ffn_norm.weight,
            "ffn_gate_inp": layer.moe.router.weight,
            "ffn_gate_exps": layer.moe.gate,
            "ffn_up_exps": layer.moe.up,
            "ffn_down_exps": layer.moe.down,
        }
        named |= {f"blk.{index}.{part}.weight": tensor for part, tensor in parts.items()}
    return {name: tensor.detach().float() for name, tensor in named.items()}


def _source(name: str, tensor: torch.Tensor, recipe: Callable[[str], GGMLType]) -> TensorSource:
    plain = tensor.dim() == 1 or "ffn_gate_inp" in name
    type = GGMLType.F32 if plain else recipe(name)
    values = tensor.contiguous().numpy()
    return TensorSource(
        name=name,
        shape=tuple(reversed(values.shape)),
        type=type,
        produce=lambda: _encode(values, type),
    )


def _encode(values: NDArray[np.float32], type: GGMLType) -> NDArray[np.generic]:
    if type is GGMLType.F32:
        return values
    if type is GGMLType.F16:
        return values.astype(np.float16)
    rows = values.reshape(-1, values.shape[-1])
    out: NDArray[np.generic] = libgguf.quantize_rows(rows, int(type)).reshape(-1)
    assert out.size == len(rows) * row_bytes(type, rows.shape[1])
    return out


def _metadata(model: DemoModel, recipe: str) -> dict[str, object]:
    s, prefix = model.s, "qwen3moe."
    values: dict[str, object] = {
        "block_count": s.layers,
        "context_length": s.context,
        "embedding_length": s.hidden,
        "feed_forward_length": s.ff * s.experts_used,
        "attention.head_count": s.heads,
        "attention.head_count_kv": s.kv_heads,
        "attention.key_length": s.head_dim,
        "attention.value_length": s.head_dim,
        "attention.layer_norm_rms_epsilon": s.rms_eps,
        "rope.freq_base": s.rope_base,
        "expert_count": s.experts,
        "expert_used_count": s.experts_used,
        "expert_feed_forward_length": s.ff,
    }
    return {
        "general.architecture": "qwen3moe",
        "general.name": "Lamina demo",
        "general.license": "mit",
        "general.description": f"trained by tools/train_demo.py, {recipe} precision",
    } | {prefix + key: value for key, value in values.items()}


def _vocabulary(tokenizer: Tokenizer) -> dict[str, object]:
    tokens = [tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size())]
    merges = [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    types = [CONTROL if token in SPECIALS else NORMAL for token in tokens]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": Typed(ValueType.I32, types),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.ggml.padding_token_id": tokens.index("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }
