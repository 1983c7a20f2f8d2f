"""The family `qwen4exp`: sizes and metadata of a model of any size, and its plan; for `models.py`.

The tensors are in `qwen4exp_tensors.py`.
Source: Qwen4ExpForCausalLM in transformers 5.24.0 and src/models/qwen4exp.cpp of llama.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from bench.model_files.ngram import head_offsets, head_sizes, multipliers
from bench.model_files.vocabulary import (
    END_OF_TEXT,
    IMAGE,
    special_id,
    tokenizer_metadata,
)
from engine.gguf.cursor import ValueType
from engine.gguf.writer import Typed

NAME = "qwen4exp"
SIZE_MOST = 2**31 - 1


def _size(default: int, text: str) -> int:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Every size of a model; the defaults are the released model's, cut to 4 layers.

    Each field is a flag of the command.
    """

    layers: int = _size(4, "trunk layers")
    hidden: int = _size(2560, "width of a stream")
    vocab: int = _size(248320, "tokens")
    context: int = _size(262144, "positions the metadata promises")
    experts: int = _size(512, "routed experts per layer")
    experts_used: int = _size(10, "experts per token")
    ff: int = _size(640, "width of a routed expert")
    shared_ff: int = _size(640, "width of the shared expert")
    streams: int = _size(4, "hyper-connection streams")
    low_rank: int = _size(320, "rank of the hyper-connection gates")
    full_interval: int = _size(4, "every n-th layer has full attention")
    key_heads: int = _size(16, "key heads of a linear layer")
    value_heads: int = _size(48, "value heads of a linear layer")
    state_dim: int = _size(128, "head width of a linear layer")
    conv_kernel: int = _size(4, "taps of the linear layers' convolution")
    heads: int = _size(24, "query heads of full attention")
    kv_heads: int = _size(2, "key heads of full attention")
    head_dim: int = _size(256, "head width of full attention")
    rope_dims: int = _size(64, "rotating dimensions of a head")
    index_heads: int = _size(4, "query heads of the sparse index")
    index_dim: int = _size(128, "head width of the sparse index")
    index_budget: int = _size(2048, "tokens that the index selects")
    index_block: int = _size(4, "tokens per block of the index")
    ngram_layer: int = _size(1, "layer with the n-gram embedding, a linear one")
    ngram_size: int = _size(3, "tokens of the longest n-gram")
    ngram_heads: int = _size(8, "hash heads per n-gram length")
    ngram_dim: int = _size(160, "width of a row of the n-gram table")
    ngram_rows: int = _size(1_000_000, "rows of the n-gram table (released: 320,001,536)")
    ngram_kernel: int = _size(4, "taps of the n-gram embedding's convolution")

    def __post_init__(self) -> None:
        for each in fields(self):
            least = 0 if each.name == "ngram_layer" else 1
            value = getattr(self, each.name)
            if not least <= value <= SIZE_MOST:
                raise ValueError(f"{each.name} is {value}, not from {least} to {SIZE_MOST}")
        linear = self.ngram_layer < self.layers and not self.is_full(self.ngram_layer)
        problems = {
            f"{self.experts_used} of {self.experts} experts used": self.experts_used > self.experts,
            f"{self.heads} heads do not share {self.kv_heads}": self.heads % self.kv_heads != 0,
            f"{self.value_heads} value heads do not share {self.key_heads}": self.value_heads
            % self.key_heads
            != 0,
            f"{self.rope_dims} rotating dimensions": self.rope_dims % 2 != 0
            or self.rope_dims > min(self.head_dim, self.index_dim),
            f"an index of {self.index_budget} tokens in blocks of {self.index_block}": (
                self.index_budget % self.index_block != 0
            ),
            f"n-gram layer {self.ngram_layer} is no linear layer of {self.layers}": not linear,
            f"n-grams of {self.ngram_size}": self.ngram_size < 2,
            f"linear layers of width {self.value_width}, beyond {SIZE_MOST}": (
                self.value_width > SIZE_MOST
            ),
        }
        for problem, present in problems.items():
            if present:
                raise ValueError(f"impossible sizes: {problem}")
        head_sizes(self.ngram_rows, self.table_heads)

    def is_full(self, layer: int) -> bool:
        return layer % self.full_interval == self.full_interval - 1

    @property
    def wide(self) -> int:
        return self.streams * self.hidden

    @property
    def value_width(self) -> int:
        return self.value_heads * self.state_dim

    @property
    def qkv_width(self) -> int:
        return 2 * self.key_heads * self.state_dim + self.value_width

    @property
    def table_heads(self) -> int:
        return (self.ngram_size - 1) * self.ngram_heads


PRESETS = {
    "released": Sizes(),
    "tiny": Sizes(
        hidden=256, vocab=384, context=4096, experts=16, experts_used=4, ff=64, shared_ff=64,
        low_rank=32, key_heads=2, value_heads=6, heads=2, kv_heads=1, index_heads=8,
        index_budget=16, ngram_heads=4, ngram_dim=32, ngram_rows=4992,
    ),
}  # fmt: skip


def metadata(sizes: Sizes, *, mtp: bool) -> dict[str, object]:
    """All keys of the file, tokenizer and chat template included."""
    s, blocks = sizes, sizes.layers + mtp
    ratios = [s.index_block if s.is_full(layer) else 0 for layer in range(s.layers)] + [0] * mtp
    half = s.rope_dims // 2
    values: dict[str, object] = {
        "block_count": blocks,
        "context_length": s.context,
        "embedding_length": s.hidden,
        "vocab_size": s.vocab,
        "attention.head_count": s.heads,
        "attention.head_count_kv": s.kv_heads,
        "attention.key_length": s.head_dim,
        "attention.value_length": s.head_dim,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.compress_ratios": Typed(ValueType.I32, ratios),
        "attention.indexer.head_count": s.index_heads,
        "attention.indexer.key_length": s.index_dim,
        "attention.indexer.top_k": s.index_budget,
        "rope.dimension_count": s.rope_dims,
        "rope.dimension_sections": Typed(
            ValueType.I32, [(half + 2) // 3, (half + 1) // 3, half // 3, 0]
        ),
        "rope.freq_base": 1e7,
        "expert_count": s.experts,
        "expert_used_count": s.experts_used,
        "expert_feed_forward_length": s.ff,
        "expert_shared_feed_forward_length": s.shared_ff,
        "ssm.conv_kernel": s.conv_kernel,
        "ssm.state_size": s.state_dim,
        "ssm.group_count": s.key_heads,
        "ssm.time_step_rank": s.value_heads,
        "ssm.inner_size": s.value_width,
        "full_attention_interval": s.full_interval,
        "hyper_connection.count": s.streams,
        "hyper_connection.low_rank": s.low_rank,
        **_ngram_metadata(s),
    }
    if mtp:
        values["nextn_predict_layers"] = 1
    return {
        "general.architecture": NAME,
        "general.name": f"random {NAME}",
        "general.quantization_version": 2,
        **{f"{NAME}.{key}": value for key, value in values.items()},
        **tokenizer_metadata(s.vocab, pre="qwen35"),
    }


def _ngram_metadata(s: Sizes) -> dict[str, object]:
    sizes = head_sizes(s.ngram_rows, s.table_heads)
    return {
        "ple.layers": Typed(ValueType.I32, [s.ngram_layer]),
        "ple.ngram_size": s.ngram_size,
        "ple.heads_per_ngram": s.ngram_heads,
        "ple.conv_kernel": s.ngram_kernel,
        "ple.eos_token_id": special_id(s.vocab, END_OF_TEXT),
        "ple.image_token_id": special_id(s.vocab, IMAGE),
        "ple.layer_multipliers": Typed(ValueType.U64, multipliers(s.vocab, s.ngram_size)),
        "ple.head_offsets": Typed(ValueType.U64, head_offsets(sizes)),
        "ple.head_vocab_sizes": Typed(ValueType.U64, sizes),
        "embedding_length_per_layer_input": s.ngram_dim,
    }
