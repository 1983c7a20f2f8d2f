"""GGUF files byte by byte, so that a test can get any of them wrong."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from engine.gguf.cursor import ValueType
from engine.gguf.types import GGMLType


def raw_string(text: bytes | str, length: int | None = None) -> bytes:
    """A string whose length field says `length`, by default the truth."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def pair(key: bytes | str, type: int, payload: bytes) -> bytes:
    """A metadata pair; `payload` is what follows the type."""
    return raw_string(key) + struct.pack("<I", type) + payload


def text_pair(key: bytes | str, text: bytes | str) -> bytes:
    return pair(key, ValueType.STRING, raw_string(text))


def u32_pair(key: str, value: int) -> bytes:
    return pair(key, ValueType.U32, struct.pack("<I", value))


def array(type: int, count: int, items: bytes = b"") -> bytes:
    """The payload of an array that claims `count` items."""
    return struct.pack("<IQ", type, count) + items


def tensor(
    name: bytes | str = "t",
    shape: Sequence[int] = (8,),
    type: int = GGMLType.F32,
    offset: int = 0,
    dimensions: int | None = None,
) -> bytes:
    """A directory entry; `dimensions` is the count it claims."""
    count = len(shape) if dimensions is None else dimensions
    sizes = struct.pack(f"<I{len(shape)}Q", count, *shape)
    return raw_string(name) + sizes + struct.pack("<IQ", type, offset)


def raw_gguf(
    pairs: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = bytes(32),
    *,
    magic: bytes = b"GGUF",
    version: int = 3,
    num_tensors: int | None = None,
    num_pairs: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A file; the counts are what the header claims."""
    counts = (
        len(tensors) if num_tensors is None else num_tensors,
        len(pairs) if num_pairs is None else num_pairs,
    )
    header = magic + struct.pack("<IQQ", version, *counts) + b"".join([*pairs, *tensors])
    return header + bytes(-len(header) % alignment) + data
