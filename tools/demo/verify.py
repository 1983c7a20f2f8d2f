"""Checks an exported file against transformers' Qwen3MoeForCausalLM.

`tools/train_demo.py verify` writes the checkpoint as f32, reads the file back with the engine's
reader, and compares the logits of transformers with those of the training code; then it reads the
quantised file and tells what its precision costs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from engine.gguf.shape import ModelShape
from tools.demo import export, measure
from tools.demo.batches import Batches
from tools.demo.model import DemoModel
from tools.demo.restore import demo_model, read_tensors

LOGITS_MAX_ERROR = 1e-4
TOKENS = 256
ATTENTION = ("q", "k", "v", "output", "q_norm", "k_norm")


def verify(model: DemoModel, tokenizer: Tokenizer, quantised: Path, seed: int) -> None:
    """Print the largest difference of logits and the perplexity of both files.

    Raises ValueError when transformers and the training code differ by LOGITS_MAX_ERROR or more.
    """
    ids = Batches(tokenizer, seed).draw()[:1, :TOKENS]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "f32.gguf"
        export.write(path, model, tokenizer, "f32")
        reference = transformers_model(path)
    with torch.no_grad():
        error = float((reference(ids).logits - model(ids)[0]).abs().max())
    print(f"f32 file, {TOKENS} tokens: logits differ from transformers by at most {error:.1e}")
    if error >= LOGITS_MAX_ERROR:
        raise ValueError(f"the exported file differs by {error:.1e}, not below {LOGITS_MAX_ERROR}")
    full = measure.perplexity(model, tokenizer, seed)
    small = measure.perplexity(demo_model(quantised), tokenizer, seed)
    print(f"held-out perplexity: checkpoint {full:.4f}, {quantised.name} {small:.4f}")


def transformers_model(path: Path) -> Qwen3MoeForCausalLM:
    """The model of a file in transformers, f32."""
    shape, tensors = read_tensors(path)
    model = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(
            vocab_size=tensors["token_embd.weight"].shape[0],
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            num_experts=shape.experts,
            num_experts_per_tok=shape.experts_used,
            moe_intermediate_size=shape.expert_ff,
            norm_topk_prob=True,
            rms_norm_eps=shape.rms_eps,
            rope_parameters={"rope_type": "default", "rope_theta": shape.rope_base},
            tie_word_embeddings=False,
        )
    )
    model.load_state_dict(_transformers_names(shape, tensors))
    return model.eval()


def _transformers_names(shape: ModelShape, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    state = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "model.norm.weight": tensors["output_norm.weight"],
        "lm_head.weight": tensors["output.weight"],
    }
    for index in range(shape.layers):
        ours, theirs = f"blk.{index}", f"model.layers.{index}"
        gate_up = [tensors[f"{ours}.ffn_{part}_exps.weight"] for part in ("gate", "up")]
        state |= {
            f"{theirs}.input_layernorm.weight": tensors[f"{ours}.attn_norm.weight"],
            f"{theirs}.post_attention_layernorm.weight": tensors[f"{ours}.ffn_norm.weight"],
            f"{theirs}.mlp.gate.weight": tensors[f"{ours}.ffn_gate_inp.weight"],
            f"{theirs}.mlp.experts.gate_up_proj": torch.cat(gate_up, 1),
            f"{theirs}.mlp.experts.down_proj": tensors[f"{ours}.ffn_down_exps.weight"],
        }
        for part in ATTENTION:
            name = part if part.endswith("norm") else f"{part[0]}_proj"
            state[f"{theirs}.self_attn.{name}.weight"] = tensors[f"{ours}.attn_{part}.weight"]
    return state
