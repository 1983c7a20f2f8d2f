"""Shapes of plain decoders: `llama` (dense) and `qwen3moe` (a mixture of experts)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.gguf.reader import GGUFModel
from engine.gguf.shape.checks import (
    LAYERS_MAX,
    Dimensions,
    check_tensors,
    head_problems,
    refuse_impossible,
    vocabulary,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """Sizes of a decoder. Expert numbers are 0 for a dense model."""

    architecture: str
    name: str
    vocab: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int  # of a dense layer
    experts: int
    experts_used: int
    expert_ff: int
    context: int  # positions the model was made for
    rms_eps: float
    rope_base: float
    rope_dims: int  # dimensions of a head that rotate
    rope_factor: float  # linear scaling: positions are divided by it
    tied_output: bool


def read_decoder(model: GGUFModel) -> DecoderShape:
    """The shape of a plain decoder, checked against its tensors."""
    is_moe, tensors_of = TENSORS[model.architecture]
    shape = _read(model, is_moe=is_moe)
    check_tensors(model, tensors_of(shape), _optional_tensors(shape))
    return shape


def _read(model: GGUFModel, *, is_moe: bool) -> DecoderShape:
    meta, prefix = model.metadata, model.architecture
    vocab = vocabulary(model)
    hidden = meta.integer(f"{prefix}.embedding_length", least=1)
    heads = meta.integer(f"{prefix}.attention.head_count", least=1)
    head_dim = meta.integer(f"{prefix}.attention.key_length", hidden // heads, least=1)
    shape = DecoderShape(
        architecture=prefix,
        name=meta.text("general.name", model.path.stem),
        vocab=vocab,
        layers=meta.integer(f"{prefix}.block_count", least=1),
        hidden=hidden,
        heads=heads,
        kv_heads=meta.integer(f"{prefix}.attention.head_count_kv", heads, least=1),
        head_dim=head_dim,
        ff=0 if is_moe else meta.integer(f"{prefix}.feed_forward_length", least=1),
        experts=meta.integer(f"{prefix}.expert_count", least=1) if is_moe else 0,
        experts_used=meta.integer(f"{prefix}.expert_used_count", least=1) if is_moe else 0,
        expert_ff=_expert_ff(model) if is_moe else 0,
        context=meta.integer(f"{prefix}.context_length", least=1),
        rms_eps=meta.number(f"{prefix}.attention.layer_norm_rms_epsilon"),
        rope_base=meta.number(f"{prefix}.rope.freq_base", 10000.0),
        rope_dims=meta.integer(f"{prefix}.rope.dimension_count", head_dim, least=2),
        rope_factor=_rope_factor(model),
        tied_output="output.weight" not in model.tensors,
    )
    _check_sizes(model, shape)
    return shape


def _expert_ff(model: GGUFModel) -> int:
    """Older files leave the key out; the tensors say it too."""
    gate = model.tensors.get("blk.0.ffn_gate_exps.weight")
    width = gate.shape[1] if gate is not None and len(gate.shape) == 3 else None
    return model.metadata.integer(
        f"{model.architecture}.expert_feed_forward_length", width, least=1
    )


def _rope_factor(model: GGUFModel) -> float:
    meta, prefix = model.metadata, model.architecture
    kind = meta.text(f"{prefix}.rope.scaling.type", "none")
    if kind == "none":
        return 1.0
    if kind == "linear":
        return meta.number(f"{prefix}.rope.scaling.factor")
    raise meta.wrong(f"{prefix}.rope.scaling.type", f"is {kind!r}; none and linear are known")


def _check_sizes(model: GGUFModel, s: DecoderShape) -> None:
    value_dim = model.metadata.integer(f"{s.architecture}.attention.value_length", s.head_dim)
    heads = head_problems(
        heads=s.heads, kv_heads=s.kv_heads, head_dim=s.head_dim, rope_dims=s.rope_dims
    )
    others = {
        f"{s.layers} layers": s.layers > LAYERS_MAX,
        f"value_length {value_dim} differs from key_length {s.head_dim}": value_dim != s.head_dim,
        f"{s.experts_used} of {s.experts} experts used": s.experts_used > s.experts,
        f"epsilon {s.rms_eps}": s.rms_eps < 0,
        f"rope base {s.rope_base}, factor {s.rope_factor}": min(s.rope_base, s.rope_factor) <= 0,
    }
    refuse_impossible(model, heads | others)


def _trunk_tensors(s: DecoderShape) -> dict[str, Dimensions]:
    """Embedding, head, attention and norms: what both architectures have."""
    queries, keys = s.heads * s.head_dim, s.kv_heads * s.head_dim
    tensors: dict[str, Dimensions] = {
        "token_embd.weight": (s.hidden, s.vocab),
        "output_norm.weight": (s.hidden,),
    }
    if not s.tied_output:
        tensors["output.weight"] = (s.hidden, s.vocab)
    for layer in range(s.layers):
        parts = {
            "attn_norm": (s.hidden,),
            "attn_q": (s.hidden, queries),
            "attn_k": (s.hidden, keys),
            "attn_v": (s.hidden, keys),
            "attn_output": (queries, s.hidden),
            "ffn_norm": (s.hidden,),
        }
        tensors |= {f"blk.{layer}.{part}.weight": size for part, size in parts.items()}
    return tensors


def _optional_tensors(s: DecoderShape) -> dict[str, Dimensions]:
    return {"rope_freqs.weight": (s.rope_dims // 2,)}


def _llama_tensors(s: DecoderShape) -> dict[str, Dimensions]:
    tensors = _trunk_tensors(s)
    for layer in range(s.layers):
        tensors[f"blk.{layer}.ffn_gate.weight"] = (s.hidden, s.ff)
        tensors[f"blk.{layer}.ffn_up.weight"] = (s.hidden, s.ff)
        tensors[f"blk.{layer}.ffn_down.weight"] = (s.ff, s.hidden)
    return tensors


def _qwen3moe_tensors(s: DecoderShape) -> dict[str, Dimensions]:
    tensors = _trunk_tensors(s)
    for layer in range(s.layers):
        parts: dict[str, Dimensions] = {
            "attn_q_norm": (s.head_dim,),
            "attn_k_norm": (s.head_dim,),
            "ffn_gate_inp": (s.hidden, s.experts),
            "ffn_gate_exps": (s.hidden, s.expert_ff, s.experts),
            "ffn_up_exps": (s.hidden, s.expert_ff, s.experts),
            "ffn_down_exps": (s.expert_ff, s.hidden, s.experts),
        }
        tensors |= {f"blk.{layer}.{part}.weight": size for part, size in parts.items()}
    return tensors


# architecture -> has experts, its required tensors
TENSORS: dict[str, tuple[bool, Callable[[DecoderShape], dict[str, Dimensions]]]] = {
    "llama": (False, _llama_tensors),
    "qwen3moe": (True, _qwen3moe_tensors),
}
