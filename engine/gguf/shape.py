"""What a model is: its sizes from metadata, checked against the tensors that are there.

`model_shape(model)` is called once when a model is loaded and refuses by name whatever cannot be
right. A new architecture adds a reader to `ARCHITECTURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.errors import ModelFileError
from engine.gguf.reader import GGUFModel

LAYERS_MAX = 1024
Dimensions = tuple[int, ...]  # in GGUF order: row length first


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
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

    @property
    def kv_values_per_token(self) -> int:
        """Keys and values of all layers, in numbers."""
        return 2 * self.layers * self.kv_heads * self.head_dim


def model_shape(model: GGUFModel) -> ModelShape:
    """Read and check the shape. Raises ModelFileError for anything that does not fit together."""
    architecture = model.architecture
    if architecture not in ARCHITECTURES:
        known = ", ".join(sorted(ARCHITECTURES))
        raise ModelFileError(model.path, f"unknown architecture {architecture!r}; known: {known}")
    is_moe, tensors_of = ARCHITECTURES[architecture]
    shape = _read(model, is_moe=is_moe)
    _check_tensors(model, tensors_of(shape), _optional_tensors(shape))
    return shape


def _read(model: GGUFModel, *, is_moe: bool) -> ModelShape:
    meta, prefix = model.metadata, model.architecture
    embedding = model.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise ModelFileError(model.path, "tensor token_embd.weight is missing")
    hidden = meta.integer(f"{prefix}.embedding_length", least=1)
    heads = meta.integer(f"{prefix}.attention.head_count", least=1)
    head_dim = meta.integer(f"{prefix}.attention.key_length", hidden // heads, least=1)
    shape = ModelShape(
        architecture=prefix,
        name=meta.text("general.name", model.path.stem),
        vocab=embedding.shape[1],
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


def _check_sizes(model: GGUFModel, s: ModelShape) -> None:
    value_dim = model.metadata.integer(f"{s.architecture}.attention.value_length", s.head_dim)
    problems = {
        f"{s.layers} layers": s.layers > LAYERS_MAX,
        f"{s.heads} heads do not share {s.kv_heads} key heads": s.heads % s.kv_heads != 0,
        f"heads of {s.head_dim}: not a multiple of 8 up to 1024": s.head_dim % 8 != 0
        or s.head_dim > 1024,
        f"value_length {value_dim} differs from key_length {s.head_dim}": value_dim != s.head_dim,
        f"{s.rope_dims} rotating dimensions in heads of {s.head_dim}": s.rope_dims > s.head_dim
        or s.rope_dims % 2 != 0,
        f"{s.experts_used} of {s.experts} experts used": s.experts_used > s.experts,
        f"epsilon {s.rms_eps}": s.rms_eps < 0,
        f"rope base {s.rope_base}, factor {s.rope_factor}": min(s.rope_base, s.rope_factor) <= 0,
    }
    for problem, present in problems.items():
        if present:
            raise ModelFileError(model.path, f"impossible shape: {problem}")


def _check_tensors(
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


def _trunk_tensors(s: ModelShape) -> dict[str, Dimensions]:
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


def _optional_tensors(s: ModelShape) -> dict[str, Dimensions]:
    return {"rope_freqs.weight": (s.rope_dims // 2,)}


def _llama_tensors(s: ModelShape) -> dict[str, Dimensions]:
    tensors = _trunk_tensors(s)
    for layer in range(s.layers):
        tensors[f"blk.{layer}.ffn_gate.weight"] = (s.hidden, s.ff)
        tensors[f"blk.{layer}.ffn_up.weight"] = (s.hidden, s.ff)
        tensors[f"blk.{layer}.ffn_down.weight"] = (s.ff, s.hidden)
    return tensors


def _qwen3moe_tensors(s: ModelShape) -> dict[str, Dimensions]:
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
ARCHITECTURES: dict[str, tuple[bool, Callable[[ModelShape], dict[str, Dimensions]]]] = {
    "llama": (False, _llama_tensors),
    "qwen3moe": (True, _qwen3moe_tensors),
}
