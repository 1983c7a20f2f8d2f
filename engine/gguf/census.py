"""Where the bytes of a model file are, and which of them one token reads.

Works on any well-formed file, also of architectures that the engine does not run. Called by
`lamina inspect` and the benchmarks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from engine.gguf.reader import GGUFModel, TensorInfo
from engine.gguf.types import row_bytes


class Part(Enum):
    """Parts of a model, as the placement of weights sees them."""

    ROUTED_EXPERTS = "routed experts"
    SHARED_EXPERTS = "shared experts"
    TRUNK = "trunk"
    TOKEN_EMBEDDING = "token embedding"
    OUTPUT_HEAD = "output head"
    NGRAM_TABLE = "n-gram table"


PATTERNS = (
    (
        Part.NGRAM_TABLE,
        re.compile(r"^(per_layer_token_embd|engram.*(table|embd)|blk\.\d+\.engram.*embd)"),
    ),
    (Part.TOKEN_EMBEDDING, re.compile(r"^token_embd\.")),
    (Part.OUTPUT_HEAD, re.compile(r"^output\.")),
    (Part.ROUTED_EXPERTS, re.compile(r"_exps\.")),
    (Part.SHARED_EXPERTS, re.compile(r"_shexp\.")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Bytes by part and by type, and what a token reads."""

    parameters: int
    bytes_by_part: dict[Part, int]
    bytes_by_type: dict[str, int]
    tensors_by_type: dict[str, int]
    experts: int
    experts_used: int
    bytes_per_token: int

    @property
    def total_bytes(self) -> int:
        return sum(self.bytes_by_part.values())


def part_of(tensor: TensorInfo) -> Part:
    """The part a tensor belongs to."""
    for part, pattern in PATTERNS:
        if pattern.search(tensor.name):
            return part
    return Part.TRUNK


def census(model: GGUFModel) -> Census:
    """Count the bytes of a model."""
    parts: Counter[Part] = Counter()
    types: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for tensor in model.tensors.values():
        parts[part_of(tensor)] += tensor.num_bytes
        types[tensor.type.name] += tensor.num_bytes
        counts[tensor.type.name] += 1
    prefix = model.metadata.text("general.architecture")
    experts = model.metadata.integer(f"{prefix}.expert_count", 0)
    used = model.metadata.integer(f"{prefix}.expert_used_count", 0)
    return Census(
        parameters=sum(tensor.num_elements for tensor in model.tensors.values()),
        bytes_by_part=dict(parts),
        bytes_by_type=dict(types.most_common()),
        tensors_by_type=dict(counts),
        experts=experts,
        experts_used=used,
        bytes_per_token=_bytes_per_token(model, parts, experts, used),
    )


def _bytes_per_token(model: GGUFModel, parts: Counter[Part], experts: int, used: int) -> int:
    """Trunk and head once, a token's share of the experts, and one row of the embedding.

    A head tied to the embedding is read whole. Rows of an n-gram table are too few to count.
    """
    embedding = model.tensors.get("token_embd.weight")
    row = row_bytes(embedding.type, embedding.shape[0]) if embedding is not None else 0
    head = parts[Part.OUTPUT_HEAD] or parts[Part.TOKEN_EMBEDDING]
    routed = parts[Part.ROUTED_EXPERTS] * used // experts if experts else 0
    return parts[Part.TRUNK] + parts[Part.SHARED_EXPERTS] + routed + head + row
