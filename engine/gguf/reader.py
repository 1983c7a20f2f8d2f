"""Reads GGUF model files in place: header, metadata and tensor directory over a mapping.

`open_gguf(path)` is called by whoever needs a model file: the loader, the text side, `lamina
inspect`. Nothing is copied: `GGUFModel.data` is a view of the mapped file. Every claim of the
header is checked before it is believed, and a file that cannot be right is refused with one line.
Source: gguf.md of the ggml repository (format versions 2 and 3); split sets as llama.cpp writes.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelFileError
from engine.gguf.cursor import KEY_BYTES_MAX, Cursor, HeaderError
from engine.gguf.metadata import Metadata
from engine.gguf.types import LAYOUTS, REMOVED_TYPES, GGMLType, row_bytes

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DIMENSIONS_MAX = 4
ALIGNMENT_DEFAULT = 32
ALIGNMENT_MAX = 1 << 20
ELEMENTS_MAX = 1 << 62
SPLIT_NAME = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor of the directory. `shape` is in GGUF order: the first number is the row length."""

    name: str
    shape: tuple[int, ...]
    type: GGMLType
    offset: int  # bytes from the start of its file
    num_bytes: int
    file_index: int = 0

    @property
    def num_elements(self) -> int:
        return int(np.prod(self.shape, dtype=object)) if self.shape else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shard:
    """One file of a model: its mapping, metadata and tensors."""

    path: Path
    mapping: mmap.mmap
    metadata: Metadata
    tensors: list[TensorInfo]


class GGUFModel:
    """A model file, or a split set of them, mapped read-only. Close it, or use it in a `with`."""

    def __init__(
        self, path: Path, shards: list[_Shard], companions: Sequence[list[_Shard]] = ()
    ) -> None:
        every = [*shards, *(shard for companion in companions for shard in companion)]
        self.path = path
        self.files = tuple(shard.path for shard in every)
        self.metadata = shards[0].metadata
        self.companion_metadata = tuple(companion[0].metadata for companion in companions)
        self._mappings = [shard.mapping for shard in every]
        self._tensors: dict[str, TensorInfo] = {}
        for index, shard in enumerate(every):
            for tensor in shard.tensors:
                self._add(replace(tensor, file_index=index), shard.path, own=index < len(shards))

    def _add(self, tensor: TensorInfo, path: Path, *, own: bool) -> None:
        """A companion may repeat a tensor, as draft files do with the head; the model's counts."""
        known = self._tensors.setdefault(tensor.name, tensor)
        if known is tensor:
            return
        if own:
            raise ModelFileError(path, f"tensor {tensor.name} occurs twice")
        if known.shape != tensor.shape:
            found, want = list(tensor.shape), list(known.shape)
            raise ModelFileError(path, f"tensor {tensor.name} is {found}, the model's is {want}")

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        return self._tensors

    @property
    def architecture(self) -> str:
        return self.metadata.text("general.architecture")

    def data(self, name: str) -> NDArray[np.uint8]:
        """(num_bytes,) uint8, a read-only view of the mapping; it keeps the mapping alive."""
        tensor = self._tensors[name]
        mapping = self._mappings[tensor.file_index]
        return np.frombuffer(mapping, np.uint8, count=tensor.num_bytes, offset=tensor.offset)

    def location(self, name: str) -> tuple[Path, int]:
        """The file that holds a tensor, and the byte where it begins."""
        tensor = self._tensors[name]
        return self.files[tensor.file_index], tensor.offset

    def close(self) -> None:
        """Forget the mappings. Views that are still held keep their file mapped."""
        mappings, self._mappings = self._mappings, []
        for mapping in mappings:
            try:
                mapping.close()
            except BufferError:  # a view is alive: the mapping goes with it
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def open_gguf(path: Path | str, *, companions: Sequence[Path] = ()) -> GGUFModel:
    """Map a model file and, when it is one of a split set, its siblings.

    Tensors of `companions`, files that hold a part which may be kept apart, are added to it.
    Raises ModelFileError naming the file and what is wrong with it.
    """
    sets: list[list[_Shard]] = []
    try:
        for each in (Path(path), *companions):
            sets.append([])
            for file in _split_set(each):
                sets[-1].append(_open_shard(file))
            _check_split(sets[-1])
        for companion in sets[1:]:
            _check_companion(sets[0][0], companion[0])
        return GGUFModel(Path(path), sets[0], sets[1:])
    except BaseException:
        for shard in (shard for shards in sets for shard in shards):
            shard.mapping.close()
        raise


def _check_companion(model: _Shard, companion: _Shard) -> None:
    """Of the same architecture, if it says one."""
    key = "general.architecture"
    wanted = model.metadata.text(key, "")
    if (found := companion.metadata.text(key, wanted)) != wanted:
        raise ModelFileError(companion.path, f"architecture {found!r}, the model's is {wanted!r}")


def _split_set(path: Path) -> list[Path]:
    """The files of the set in order; just `path` when its name is not that of a shard.

    Siblings are found beside the name as given: a shard may be a link to a shared file elsewhere.
    """
    match = SPLIT_NAME.match(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    if not 1 <= int(match["number"]) <= count:
        raise ModelFileError(path, "its name says a shard number outside the split set")
    names = (f"{match['stem']}-{n:05d}-of-{count:05d}.gguf" for n in range(1, count + 1))
    files = [path.with_name(name) for name in names]
    for file in files:
        if not os.path.exists(file):  # unlike Path.exists, false for names that cannot be
            raise ModelFileError(path, f"shard {file.name} of the split set is missing")
    return files


def _check_split(shards: list[_Shard]) -> None:
    for index, shard in enumerate(shards):
        # A shard that is a link is a file that several sets share: it knows neither its number nor
        # how many there are.
        if index and shard.path.is_symlink():
            continue
        count = shard.metadata.integer("split.count", 0) or 1
        if count != len(shards):
            reason = f"split.count is {count}, but the file's name says {len(shards)}"
            raise ModelFileError(shard.path, reason)
        if count > 1 and shard.metadata.integer("split.no", index) != index:
            raise ModelFileError(shard.path, f"split.no is not {index}, as its name says")
    total = sum(len(shard.tensors) for shard in shards)
    expected = shards[0].metadata.integer("split.tensors.count", total)
    if len(shards) > 1 and expected != total:
        reason = f"the split set has {total} tensors, not {expected}"
        raise ModelFileError(shards[0].path, reason)


def _open_shard(path: Path) -> _Shard:
    mapping = _map(path)
    try:
        with memoryview(mapping) as view:
            metadata, tensors = _parse(view, path)
    except HeaderError as error:
        reason = str(error)
    except ModelFileError as error:
        reason = error.reason
    else:
        return _Shard(path=path, mapping=mapping, metadata=metadata, tensors=tensors)
    mapping.close()  # only here: a caught error keeps views of the mapping alive
    raise ModelFileError(path, reason)


def _map(path: Path) -> mmap.mmap:
    """The file's bytes. What is no regular file is refused unopened: opening a pipe would block."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(path, "not a regular file")
        if status.st_size == 0:
            raise ModelFileError(path, "the file is empty")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelFileError(path, error.strerror or str(error)) from None
    except ValueError as error:  # a name with a zero byte, or a file that was emptied meanwhile
        raise ModelFileError(path, str(error)) from None


def _parse(view: memoryview, path: Path) -> tuple[Metadata, list[TensorInfo]]:
    cursor = Cursor(view)
    if bytes(view[:4]) != MAGIC:
        raise HeaderError("not a GGUF file (its first four bytes are not 'GGUF')")
    cursor.take(4, "the magic number")
    version = cursor.u32("the version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if swapped in VERSIONS:
            raise HeaderError("big-endian GGUF files are not supported")
        raise HeaderError(f"GGUF version {version} is not supported (2 and 3 are)")
    num_tensors = cursor.u64("the tensor count")
    num_pairs = cursor.u64("the metadata count")
    _check_count(len(view), num_tensors, "tensors", least_bytes=24)
    _check_count(len(view), num_pairs, "metadata pairs", least_bytes=13)
    metadata = Metadata(_read_pairs(cursor, num_pairs), path)
    alignment = metadata.integer("general.alignment", ALIGNMENT_DEFAULT)
    if not 8 <= alignment <= ALIGNMENT_MAX or alignment & (alignment - 1):
        raise HeaderError(f"general.alignment is {alignment}, not a power of two from 8 to 1 MiB")
    directory = [_read_tensor(cursor) for _ in range(num_tensors)]
    start = -(-cursor.position // alignment) * alignment
    tensors = [replace(t, offset=t.offset + start) for t in directory]
    _check_tensors(tensors, len(view), alignment, start)
    return metadata, tensors


def _check_count(file_bytes: int, count: int, what: str, *, least_bytes: int) -> None:
    if count * least_bytes > file_bytes:
        raise HeaderError(f"claims {count} {what}, more than a file of {file_bytes} bytes can hold")


def _read_pairs(cursor: Cursor, count: int) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for _ in range(count):
        key = cursor.string("a metadata key", KEY_BYTES_MAX)
        if not key:
            raise HeaderError("a metadata key without a name")
        if key in pairs:
            raise HeaderError(f"metadata {key} occurs twice")
        pairs[key] = cursor.value(key)
    return pairs


def _read_tensor(cursor: Cursor) -> TensorInfo:
    """One directory entry; its offset is still relative to the data section."""
    name = cursor.string("a tensor name", KEY_BYTES_MAX)
    if not name:
        raise HeaderError("a tensor without a name")
    num_dimensions = cursor.u32(f"tensor {name}")
    if not 1 <= num_dimensions <= DIMENSIONS_MAX:
        raise HeaderError(f"tensor {name} has {num_dimensions} dimensions")
    shape = tuple(cursor.u64(f"tensor {name}") for _ in range(num_dimensions))
    type = _tensor_type(cursor.u32(f"tensor {name}"), name)
    offset = cursor.u64(f"tensor {name}")
    elements = 1
    for dimension in shape:
        elements *= dimension
        if dimension == 0 or elements > ELEMENTS_MAX:
            raise HeaderError(f"tensor {name} has impossible dimensions {list(shape)}")
    try:
        num_bytes = row_bytes(type, shape[0]) * (elements // shape[0])
    except ValueError as error:
        raise HeaderError(f"tensor {name}: {error}") from None
    return TensorInfo(name=name, shape=shape, type=type, offset=offset, num_bytes=num_bytes)


def _tensor_type(number: int, name: str) -> GGMLType:
    if number in REMOVED_TYPES:
        removed = REMOVED_TYPES[number]
        raise HeaderError(f"tensor {name} is of type {removed} ({number}), which ggml dropped")
    try:
        type = GGMLType(number)
    except ValueError:
        raise HeaderError(f"tensor {name} is of unknown type {number}") from None
    assert type in LAYOUTS, f"no layout for {type.name}"
    return type


def _check_tensors(tensors: list[TensorInfo], file_bytes: int, alignment: int, start: int) -> None:
    """Offsets aligned, inside the file, names unique, no two tensors over the same bytes."""
    names: set[str] = set()
    end_of_last, last = start, ""
    for tensor in sorted(tensors, key=lambda t: t.offset):
        if tensor.name in names:
            raise HeaderError(f"tensor {tensor.name} occurs twice")
        names.add(tensor.name)
        if tensor.offset % alignment:
            raise HeaderError(f"tensor {tensor.name} is not aligned to {alignment} bytes")
        if tensor.offset + tensor.num_bytes > file_bytes:
            raise HeaderError(
                f"truncated: tensor {tensor.name} ends at {tensor.offset + tensor.num_bytes}, "
                f"the file at {file_bytes}"
            )
        if tensor.offset < end_of_last:
            raise HeaderError(f"tensors {last} and {tensor.name} overlap")
        end_of_last, last = tensor.offset + tensor.num_bytes, tensor.name
