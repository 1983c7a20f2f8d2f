"""The same model in transformers: built from the weights of a GGUF file, run in float32.

Row order, names and stacking follow llama.cpp's convert_hf_to_gguf.py, read backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from engine.gguf.reader import GGUFModel, open_gguf
from engine.gguf.shape import DecoderShape, model_shape
from helpers.f32_copy import expanded

Floats = NDArray[np.float32]
TRUNK = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}
QWEN3MOE = TRUNK | {
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate": "ffn_gate_inp",
}
LLAMA = TRUNK | {
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def hf_qwen3moe(path: Path) -> Any:
    """Qwen3MoeForCausalLM with the weights of the file."""
    with open_gguf(path) as model:
        shape, weights = decoder_shape(model), _weights(model)
    config = Qwen3MoeConfig(
        **_sizes(shape),
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
        num_experts=shape.experts,
        num_experts_per_tok=shape.experts_used,
        moe_intermediate_size=shape.expert_ff,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    )
    state = _trunk(weights, shape, QWEN3MOE)
    for layer in range(shape.layers):
        gate, up, down = (
            weights[f"blk.{layer}.ffn_{part}_exps.weight"] for part in ("gate", "up", "down")
        )
        experts = f"model.layers.{layer}.mlp.experts"
        state[f"{experts}.gate_up_proj"] = np.concatenate([gate, up], axis=1)
        state[f"{experts}.down_proj"] = down
    return _loaded(Qwen3MoeForCausalLM(config), state)


def hf_llama(path: Path, rope_parameters: dict[str, Any]) -> Any:
    """LlamaForCausalLM with the weights of the file and rotary positions as transformers has it."""
    with open_gguf(path) as model:
        shape, weights = decoder_shape(model), _weights(model)
    config = LlamaConfig(
        **_sizes(shape), rope_parameters=rope_parameters, intermediate_size=shape.ff
    )
    state = _trunk(weights, shape, LLAMA)
    for layer in range(shape.layers):
        attention = f"model.layers.{layer}.self_attn"
        for name, heads in (("q_proj", shape.heads), ("k_proj", shape.kv_heads)):
            key = f"{attention}.{name}.weight"
            state[key] = halves_apart(state[key], heads)
    return _loaded(LlamaForCausalLM(config), state)


def halves_apart(rows: Floats, heads: int) -> Floats:
    """(heads * head_dim, cols): rows that rotate together from neighbours to halves of a head."""
    cols = rows.shape[1]
    return rows.reshape(heads, -1, 2, cols).swapaxes(1, 2).reshape(-1, cols)


@torch.inference_mode()
def hf_logits(model: Any, prompt: Sequence[int]) -> Floats:
    """(tokens, vocab)."""
    logits: torch.Tensor = model(torch.tensor([prompt])).logits[0]
    return logits.numpy()


def decoder_shape(model: GGUFModel) -> DecoderShape:
    """The shape of a plain decoder."""
    shape = model_shape(model)
    assert isinstance(shape, DecoderShape)
    return shape


def _weights(model: GGUFModel) -> dict[str, Floats]:
    return {name: expanded(model, tensor) for name, tensor in model.tensors.items()}


def _sizes(shape: DecoderShape) -> dict[str, Any]:
    return {
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "max_position_embeddings": shape.context,
        "rms_norm_eps": shape.rms_eps,
        "tie_word_embeddings": shape.tied_output,
        "attn_implementation": "eager",
    }


def _trunk(
    weights: dict[str, Floats], shape: DecoderShape, parts: dict[str, str]
) -> dict[str, Floats]:
    head = "token_embd.weight" if shape.tied_output else "output.weight"
    state = {
        "model.embed_tokens.weight": weights["token_embd.weight"],
        "model.norm.weight": weights["output_norm.weight"],
        "lm_head.weight": weights[head],
    }
    for layer in range(shape.layers):
        for theirs, ours in parts.items():
            name = f"model.layers.{layer}.{theirs}.weight"
            state[name] = weights[f"blk.{layer}.{ours}.weight"]
    return state


def _loaded(model: Any, state: dict[str, Floats]) -> Any:
    """Every parameter must be given and known."""
    tensors = {name: torch.from_numpy(values) for name, values in state.items()}
    model.load_state_dict(tensors, strict=True)
    return model.eval()
