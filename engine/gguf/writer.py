"""Writes GGUF files, version 3: for tests, for the demo model and for benchmark models.

Tensors are written one by one as they are produced, whole or in pieces, so neither a model nor one
tensor of it has to fit in memory.
Source: gguf.md of the ggml repository.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from engine.gguf.cursor import SCALARS, ValueType
from engine.gguf.types import GGMLType, row_bytes

ALIGNMENT = 32
VERSION = 3
TensorBytes = NDArray[np.generic] | bytes


@dataclass(frozen=True, slots=True)
class Typed:
    """A metadata value with an explicit type; for arrays, the type of the items."""

    type: ValueType
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSource:
    """A tensor to write; `shape` in GGUF order.

    `produce` gives exactly its bytes when called: at once, or as an iterator over pieces of them.
    """

    name: str
    shape: tuple[int, ...]
    type: GGMLType
    produce: Callable[[], TensorBytes | Iterator[TensorBytes]]

    @property
    def num_bytes(self) -> int:
        rows = int(np.prod(self.shape[1:], dtype=np.int64))
        return row_bytes(self.type, self.shape[0]) * rows


def write_gguf(
    path: Path,
    metadata: Mapping[str, object],
    tensors: Iterable[TensorSource],
    *,
    alignment: int = ALIGNMENT,
) -> None:
    """Write a file. Plain values become u32 (i32 when negative), f32, bool, string or arrays."""
    sources = list(tensors)
    pairs = dict(metadata)
    if alignment != ALIGNMENT:
        pairs["general.alignment"] = alignment
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", VERSION, len(sources), len(pairs)))
        for key, value in pairs.items():
            file.write(_string(key) + _value(value))
        offset = 0
        for source in sources:
            file.write(_directory_entry(source, offset))
            offset += _padded(source.num_bytes, alignment)
        _pad(file, alignment)
        for source in sources:
            _write_tensor(file, source)
            _pad(file, alignment)


def write_split(
    path: Path, metadata: Mapping[str, object], shards: Sequence[Sequence[TensorSource]]
) -> list[Path]:
    """Write a split set `<stem>-0000N-of-0000M.gguf` beside `path`; returns the files."""
    files = []
    total = sum(len(shard) for shard in shards)
    for index, shard in enumerate(shards):
        pairs: dict[str, object] = dict(metadata) if index == 0 else {}
        pairs["split.no"] = Typed(ValueType.U16, index)
        pairs["split.count"] = Typed(ValueType.U16, len(shards))
        pairs["split.tensors.count"] = Typed(ValueType.I32, total)
        file = path.with_name(f"{path.stem}-{index + 1:05d}-of-{len(shards):05d}.gguf")
        write_gguf(file, pairs, shard)
        files.append(file)
    return files


def _write_tensor(file: BinaryIO, source: TensorSource) -> None:
    data = source.produce()
    written = 0
    for piece in [data] if isinstance(data, bytes | np.ndarray) else data:
        raw = np.frombuffer(piece, np.uint8) if isinstance(piece, bytes) else _flat(piece)
        written += len(raw)
        if written > source.num_bytes:  # before the write: the next tensor's place is settled
            break
        file.write(raw.data)
    if written != source.num_bytes:
        raise ValueError(f"{source.name}: {written} bytes produced, {source.num_bytes} declared")


def _flat(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _directory_entry(source: TensorSource, offset: int) -> bytes:
    dimensions = struct.pack(f"<I{len(source.shape)}Q", len(source.shape), *source.shape)
    return _string(source.name) + dimensions + struct.pack("<IQ", source.type, offset)


def _string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def _value(value: object) -> bytes:
    if isinstance(value, Typed):
        if isinstance(value.value, list | tuple | np.ndarray):
            return struct.pack("<I", ValueType.ARRAY) + _array(value.type, value.value)
        return struct.pack("<I", value.type) + _scalar(value.type, value.value)
    if isinstance(value, list | tuple | np.ndarray):
        return struct.pack("<I", ValueType.ARRAY) + _array(_item_type(value), value)
    type = _plain_type(value)
    return struct.pack("<I", type) + _scalar(type, value)


def _plain_type(value: object) -> ValueType:
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, int):
        return ValueType.U32 if value >= 0 else ValueType.I32
    if isinstance(value, float):
        return ValueType.F32
    if isinstance(value, str):
        return ValueType.STRING
    raise TypeError(f"no metadata type for {type(value).__name__}")


def _item_type(values: Sequence[object] | NDArray[np.generic]) -> ValueType:
    if isinstance(values, np.ndarray):
        return next(t for t, (_, code) in SCALARS.items() if np.dtype(code) == values.dtype)
    types = {_plain_type(value) for value in values}
    if types == {ValueType.U32, ValueType.I32}:
        return ValueType.I32
    if len(types) != 1:
        raise TypeError("array items must be of one type; use Typed for an empty array")
    return types.pop()


def _array(type: ValueType, values: Sequence[object] | NDArray[np.generic]) -> bytes:
    head = struct.pack("<IQ", type, len(values))
    if isinstance(values, np.ndarray):
        return head + values.astype(SCALARS[type][1]).tobytes()
    return head + b"".join(_scalar(type, value) for value in values)


def _scalar(type: ValueType, value: object) -> bytes:
    if type is ValueType.STRING:
        assert isinstance(value, str)
        return _string(value)
    return struct.pack(SCALARS[type][0], value)


def _padded(count: int, alignment: int) -> int:
    return -(-count // alignment) * alignment


def _pad(file: BinaryIO, alignment: int) -> None:
    file.write(bytes(_padded(file.tell(), alignment) - file.tell()))
