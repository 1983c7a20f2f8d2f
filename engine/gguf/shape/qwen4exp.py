"""Shape of `qwen4exp`, the Qwen3.8-Flash-Next family.

Source: keys and tensors as llama.cpp's converter writes them (convert_hf_to_gguf.py); sizes checked
here against the tensors that are there.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ModelFileError
from engine.gguf.metadata import Metadata
from engine.gguf.reader import GGUFModel
from engine.gguf.shape.checks import (
    LAYERS_MAX,
    Dimensions,
    check_tensors,
    head_problems,
    refuse_impossible,
    vocabulary,
)

KEY = "qwen4exp"
NGRAM_TABLE = "per_layer_token_embd.weight"
PRODUCT_MAX = 1 << 63  # hashes are computed in signed 64 bits
GATE_UP = "ffn_gate_up_exps"


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramShape:
    """The n-gram embedding: which rows of the table a token reads, and where they enter."""

    layer: int
    multipliers: tuple[int, ...]  # one per token of the longest n-gram, the newest first
    offsets: tuple[int, ...]  # of each head's rows in the table
    vocab_sizes: tuple[int, ...]  # rows of each head
    heads_per_ngram: int
    end_token: int  # nothing before it is looked at
    rows: int
    width: int  # values of a row
    conv_kernel: int

    @property
    def embedding(self) -> int:
        """Values a token reads: one row per head."""
        return len(self.offsets) * self.width

    @property
    def dilation(self) -> int:
        """Of the convolution: the length of the longest n-gram."""
        return len(self.multipliers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen4ExpShape:
    """Sizes of the trunk and, if the file holds one, of the draft (MTP) block behind it."""

    architecture: str
    name: str
    vocab: int
    layers: int  # of the trunk
    hidden: int
    context: int  # positions the model was made for
    rms_eps: float
    tied_output: bool
    streams: int  # hyper-connections
    stream_rank: int
    heads: int  # attention
    kv_heads: int
    head_dim: int
    rope_base: float
    rope_dims: int
    index_heads: int
    index_dim: int
    index_budget: int  # positions that a token attends to besides the unfinished block
    ratios: tuple[int, ...]  # per layer: positions per index block; 0: attention to everything
    attention_layers: tuple[int, ...]
    conv_kernel: int  # delta net
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    experts: int
    experts_used: int
    expert_ff: int
    shared_ff: int
    ngram: NgramShape | None
    draft_layers: int  # 0 or 1: layer number `layers`, an attention layer

    @property
    def recurrent_layers(self) -> tuple[int, ...]:
        return tuple(i for i in range(self.layers) if i not in self.attention_layers)

    @property
    def qkv(self) -> int:
        """Width of a delta net's queries, keys and values together."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    @property
    def wide(self) -> int:
        """All streams of a token together."""
        return self.streams * self.hidden


def read_qwen4exp(model: GGUFModel) -> Qwen4ExpShape:
    """The shape, checked against the tensors."""
    shape = _read(model)
    _check_sizes(model, shape)
    check_tensors(model, _tensors(model, shape), _optional_tensors(shape))
    return shape


def _read(model: GGUFModel) -> Qwen4ExpShape:
    meta = model.metadata

    def size(key: str, default: int | None = None, least: int = 1) -> int:
        return meta.integer(f"{KEY}.{key}", default, least=least)

    blocks, drafts = size("block_count"), size("nextn_predict_layers", 0, least=0)
    layers = blocks - drafts
    if layers < 1 or layers > LAYERS_MAX:
        raise meta.wrong(f"{KEY}.block_count", f"is {blocks}, of which {drafts} are draft blocks")
    draft_layers = 1 if f"blk.{layers}.nextn.eh_proj.weight" in model.tensors else 0
    if drafts > 1 or drafts > draft_layers:
        raise meta.wrong(f"{KEY}.nextn_predict_layers", f"is {drafts}, found {draft_layers}")
    value_heads, inner = size("ssm.time_step_rank"), size("ssm.inner_size")
    return Qwen4ExpShape(
        architecture=KEY,
        name=meta.text("general.name", model.path.stem),
        vocab=vocabulary(model),
        layers=layers,
        hidden=size("embedding_length"),
        context=size("context_length"),
        rms_eps=meta.number(f"{KEY}.attention.layer_norm_rms_epsilon"),
        tied_output="output.weight" not in model.tensors,
        streams=size("hyper_connection.count"),
        stream_rank=size("hyper_connection.low_rank"),
        heads=size("attention.head_count"),
        kv_heads=size("attention.head_count_kv"),
        head_dim=size("attention.key_length"),
        rope_base=meta.number(f"{KEY}.rope.freq_base"),
        rope_dims=size("rope.dimension_count", least=2),
        index_heads=size("attention.indexer.head_count"),
        index_dim=size("attention.indexer.key_length"),
        index_budget=size("attention.indexer.top_k"),
        ratios=_ratios(model, layers, draft_layers),
        attention_layers=_attention_layers(meta, layers, blocks),
        conv_kernel=size("ssm.conv_kernel", least=2),
        key_heads=size("ssm.group_count"),
        value_heads=value_heads,
        key_dim=size("ssm.state_size"),
        value_dim=inner // value_heads,
        experts=size("expert_count"),
        experts_used=size("expert_used_count"),
        expert_ff=size("expert_feed_forward_length"),
        shared_ff=size("expert_shared_feed_forward_length"),
        ngram=_ngram(model) if f"{KEY}.ple.layers" in meta else None,
        draft_layers=draft_layers,
    )


def _attention_layers(meta: Metadata, layers: int, blocks: int) -> tuple[int, ...]:
    """Every n-th layer, unless the file says of each layer whether it is recurrent."""
    key = f"{KEY}.attention.recurrent_layers"
    if key in meta:
        recurrent = meta.booleans(key)
        if len(recurrent) not in (layers, blocks):
            raise meta.wrong(key, f"has {len(recurrent)} values for {layers} layers")
        return tuple(i for i in range(layers) if not recurrent[i])
    interval = meta.integer(f"{KEY}.full_attention_interval", least=1)
    return tuple(range(interval - 1, layers, interval))


def _ratios(model: GGUFModel, layers: int, draft_layers: int) -> tuple[int, ...]:
    """One per layer; the draft block's stands in the file that brought it."""
    key = f"{KEY}.attention.compress_ratios"
    ratios = model.metadata.integers(key)
    wanted = layers + draft_layers
    if draft_layers and len(ratios) == layers:
        longer = (other.integers(key, ()) for other in model.companion_metadata)
        ratios = next((more for more in longer if len(more) == wanted), ratios)
    if len(ratios) < wanted:
        raise model.metadata.wrong(key, f"has {len(ratios)} values for {wanted} blocks")
    return ratios[:wanted]


def _ngram(model: GGUFModel) -> NgramShape:
    meta = model.metadata
    table = model.tensors.get(NGRAM_TABLE)
    if table is None or len(table.shape) != 2:
        raise ModelFileError(
            model.path, f"tensor {NGRAM_TABLE} is missing; --ngram-table names the file it lies in"
        )
    layers = meta.integers(f"{KEY}.ple.layers")
    if len(layers) != 1:
        raise meta.wrong(f"{KEY}.ple.layers", f"names {len(layers)} layers; one is supported")
    shape = NgramShape(
        layer=layers[0],
        multipliers=meta.integers(f"{KEY}.ple.layer_multipliers"),
        offsets=meta.integers(f"{KEY}.ple.head_offsets"),
        vocab_sizes=meta.integers(f"{KEY}.ple.head_vocab_sizes"),
        heads_per_ngram=meta.integer(f"{KEY}.ple.heads_per_ngram", least=1),
        end_token=meta.integer(f"{KEY}.ple.eos_token_id"),
        rows=table.shape[1],
        width=meta.integer(f"{KEY}.embedding_length_per_layer_input", least=1),
        conv_kernel=meta.integer(f"{KEY}.ple.conv_kernel", least=2),
    )
    size = meta.integer(f"{KEY}.ple.ngram_size", least=2)
    heads = (size - 1) * shape.heads_per_ngram
    lengths = (len(shape.multipliers), len(shape.offsets), len(shape.vocab_sizes))
    if lengths != (size, heads, heads):
        reason = f"{lengths} multipliers, offsets and sizes for {heads} heads of {size}-grams"
        raise ModelFileError(model.path, f"impossible shape: {reason}")
    return shape


def _check_sizes(model: GGUFModel, s: Qwen4ExpShape) -> None:
    meta = model.metadata
    value_length = meta.integer(f"{KEY}.attention.value_length", s.head_dim)
    inner = meta.integer(f"{KEY}.ssm.inner_size")
    heads = head_problems(
        heads=s.heads, kv_heads=s.kv_heads, head_dim=s.head_dim, rope_dims=s.rope_dims
    )
    index = head_problems(
        heads=s.index_heads, kv_heads=1, head_dim=s.index_dim, rope_dims=s.rope_dims
    )
    sparse = [r for i, r in enumerate(s.ratios) if r and (i in s.attention_layers or i >= s.layers)]
    others = {
        f"value_length {value_length} differs from key_length {s.head_dim}": value_length
        != s.head_dim,
        f"{s.value_heads} value heads do not share {s.key_heads} key heads": s.value_heads
        % s.key_heads
        != 0,
        f"inner size {inner} for {s.value_heads} value heads": inner != s.value_heads * s.value_dim,
        f"delta net heads of {s.key_dim} and {s.value_dim}: not multiples of 8 up to 1024": any(
            dim % 8 or not 0 < dim <= 1024 for dim in (s.key_dim, s.value_dim)
        ),
        f"index blocks of {sparse} positions": any(ratio < 1 for ratio in sparse),
        f"an index budget of {s.index_budget} positions in blocks of {sparse}": any(
            s.index_budget < ratio or s.index_budget % ratio for ratio in sparse if ratio > 0
        ),
        f"{s.experts_used} of {s.experts} experts used": s.experts_used > s.experts,
        f"epsilon {s.rms_eps}": s.rms_eps < 0,
        f"rope base {s.rope_base}": s.rope_base <= 0,
        f"context of {s.context}": s.context >= 1 << 31,
    }
    refuse_impossible(model, heads | index | others | _ngram_problems(s))


def _ngram_problems(s: Qwen4ExpShape) -> dict[str, bool]:
    n = s.ngram
    if n is None:
        return {}
    ends = [offset + size for offset, size in zip(n.offsets, n.vocab_sizes, strict=True)]
    return {
        f"n-gram embedding at layer {n.layer} of {s.layers}": not 0 <= n.layer < s.layers,
        f"n-gram heads that read beyond the table of {n.rows} rows": min(n.offsets) < 0
        or min(n.vocab_sizes) < 1
        or max(ends) > n.rows,
        "n-gram multipliers that overflow 64 bits": min(n.multipliers) < 0
        or max(n.multipliers) * (max(s.vocab, n.end_token + 1) - 1) >= PRODUCT_MAX,
    }


def _tensors(model: GGUFModel, s: Qwen4ExpShape) -> dict[str, Dimensions]:
    """What must be there."""
    tensors: dict[str, Dimensions] = {
        "token_embd.weight": (s.hidden, s.vocab),
        **_mixer("output_hc", s),
    }
    if s.ngram is not None:
        tensors[NGRAM_TABLE] = (s.ngram.width, s.ngram.rows)
    if not s.tied_output:
        tensors["output.weight"] = (s.hidden, s.vocab)
    for layer in range(s.layers + s.draft_layers):
        block = _mixer("hc_attn", s) | _mixer("hc_ffn", s)
        block |= {f"{hc}_inject.weight": (s.wide, s.streams) for hc in ("hc_attn", "hc_ffn")}
        block |= _attention(s) if _attends(s, layer) else _delta_net(s)
        block |= _index(s) if _attends(s, layer) and s.ratios[layer] else {}
        block |= _moe(s, fused=f"blk.{layer}.{GATE_UP}.weight" in model.tensors)
        if layer == s.layers:
            block |= _draft(s)
        if s.ngram is not None and layer == s.ngram.layer:
            block |= _ngram_block(s, s.ngram)
        tensors |= {f"blk.{layer}.{part}": size for part, size in block.items()}
    return tensors


def _optional_tensors(s: Qwen4ExpShape) -> dict[str, Dimensions]:
    """Index weights where everything is attended to, and a draft block's own embedding and head."""
    tensors: dict[str, Dimensions] = {}
    for layer in range(s.layers + s.draft_layers):
        if _attends(s, layer) and not s.ratios[layer]:
            tensors |= {f"blk.{layer}.{part}": size for part, size in _index(s).items()}
        if layer == s.layers:
            names = ("embed_tokens", "shared_head_head")
            tensors |= {f"blk.{layer}.nextn.{name}.weight": (s.hidden, s.vocab) for name in names}
    return tensors


def _attends(s: Qwen4ExpShape, layer: int) -> bool:
    return layer in s.attention_layers or layer >= s.layers


def _mixer(name: str, s: Qwen4ExpShape) -> dict[str, Dimensions]:
    return {
        f"{name}_norm.weight": (s.wide,),
        f"{name}_down.weight": (s.wide, s.stream_rank),
        f"{name}_up.weight": (s.stream_rank, s.wide),
    }


def _attention(s: Qwen4ExpShape) -> dict[str, Dimensions]:
    queries, keys = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return {
        "attn_q.weight": (s.hidden, 2 * queries),
        "attn_k.weight": (s.hidden, keys),
        "attn_v.weight": (s.hidden, keys),
        "attn_output.weight": (queries, s.hidden),
        "attn_q_norm.weight": (s.head_dim,),
        "attn_k_norm.weight": (s.head_dim,),
    }


def _index(s: Qwen4ExpShape) -> dict[str, Dimensions]:
    return {
        "indexer.q_proj.weight": (s.hidden, s.index_heads * s.index_dim),
        "indexer.k_proj.weight": (s.hidden, s.index_dim),
        "indexer.q_norm.weight": (s.index_dim,),
        "indexer.k_norm.weight": (s.index_dim,),
    }


def _delta_net(s: Qwen4ExpShape) -> dict[str, Dimensions]:
    inner = s.value_heads * s.value_dim
    return {
        "attn_qkv.weight": (s.hidden, s.qkv),
        "attn_gate.weight": (s.hidden, inner),
        "ssm_beta.weight": (s.hidden, s.value_heads),
        "ssm_alpha.weight": (s.hidden, s.value_heads),
        "ssm_conv1d.weight": (s.conv_kernel, s.qkv),
        "ssm_dt.bias": (s.value_heads,),
        "ssm_a": (s.value_heads,),
        "ssm_norm.weight": (s.value_dim,),
        "ssm_out.weight": (inner, s.hidden),
    }


def _moe(s: Qwen4ExpShape, *, fused: bool) -> dict[str, Dimensions]:
    stack = (s.hidden, s.expert_ff, s.experts)
    gate_up: dict[str, Dimensions] = (
        {f"{GATE_UP}.weight": (s.hidden, 2 * s.expert_ff, s.experts)}
        if fused
        else {"ffn_gate_exps.weight": stack, "ffn_up_exps.weight": stack}
    )
    return gate_up | {
        "ffn_gate_inp.weight": (s.hidden, s.experts),
        "ffn_down_exps.weight": (s.expert_ff, s.hidden, s.experts),
        "ffn_gate_shexp.weight": (s.hidden, s.shared_ff),
        "ffn_up_shexp.weight": (s.hidden, s.shared_ff),
        "ffn_down_shexp.weight": (s.shared_ff, s.hidden),
        "ffn_gate_inp_shexp.weight": (s.hidden,),
    }


def _ngram_block(s: Qwen4ExpShape, n: NgramShape) -> dict[str, Dimensions]:
    return {
        "ple_key.weight": (n.embedding, s.wide),
        "ple_value.weight": (n.embedding, s.hidden),
        "ple_norm_key.weight": (s.wide,),
        "ple_norm_query.weight": (s.wide,),
        "ple_norm_conv.weight": (s.wide,),
        "ple_conv1d.weight": (n.conv_kernel, s.wide),
    }


def _draft(s: Qwen4ExpShape) -> dict[str, Dimensions]:
    return {
        "nextn.eh_proj.weight": (2 * s.hidden, s.hidden),
        "nextn.enorm.weight": (s.hidden,),
        "nextn.hnorm.weight": (s.wide,),
        **{f"nextn.{name}": size for name, size in _mixer("hc_head", s).items()},
    }
