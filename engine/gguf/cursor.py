"""A bounds-checked cursor over the header bytes of a GGUF file.

Used by `reader.py` alone. Every length that a file claims is compared with the bytes that are left
before anything is allocated for it, so that no header can make us allocate more than its own size.
Source: gguf.md of the ggml repository (format versions 2 and 3).
"""

from __future__ import annotations

import struct
from enum import IntEnum

import numpy as np

NESTING_MAX = 4  # arrays of arrays; real files nest none
STRING_BYTES_MAX = 64 << 20
KEY_BYTES_MAX = 65535  # of metadata keys and tensor names; the format's own limit for keys


class ValueType(IntEnum):
    """Metadata value types."""

    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12


SCALARS: dict[ValueType, tuple[str, str]] = {  # struct code, numpy dtype
    ValueType.U8: ("<B", "<u1"),
    ValueType.I8: ("<b", "<i1"),
    ValueType.U16: ("<H", "<u2"),
    ValueType.I16: ("<h", "<i2"),
    ValueType.U32: ("<I", "<u4"),
    ValueType.I32: ("<i", "<i4"),
    ValueType.F32: ("<f", "<f4"),
    ValueType.BOOL: ("<B", "<u1"),
    ValueType.U64: ("<Q", "<u8"),
    ValueType.I64: ("<q", "<i8"),
    ValueType.F64: ("<d", "<f8"),
}
_U64 = struct.Struct("<Q")


class HeaderError(Exception):
    """What is wrong with the header; the reader adds the file's name."""


class Cursor:
    """Reads little-endian values from `data`, starting at `position`."""

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self._data = data
        self.position = position

    def take(self, count: int, what: str) -> memoryview:
        """The next `count` bytes, without a copy."""
        if count > len(self._data) - self.position:
            raise HeaderError(f"truncated: {what} needs {count} bytes at offset {self.position}")
        start, self.position = self.position, self.position + count
        return self._data[start : self.position]

    def u32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "little")

    def string(self, what: str, bytes_max: int = STRING_BYTES_MAX) -> str:
        """A length-prefixed UTF-8 string. Tokens may hold any bytes, keys and names may not."""
        length = self.u64(what)
        if length > bytes_max:
            raise HeaderError(f"{what} claims {length} bytes")
        raw = self.take(length, what)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            raise HeaderError(f"{what} is not UTF-8") from None

    def value(self, key: str) -> object:
        """One metadata value with its type tag."""
        return self._typed(self._value_type(key), key, depth=0)

    def _value_type(self, key: str) -> ValueType:
        number = self.u32(f"the type of {key}")
        try:
            return ValueType(number)
        except ValueError:
            raise HeaderError(f"metadata {key} has unknown value type {number}") from None

    def _typed(self, type: ValueType, key: str, depth: int) -> object:
        if type is ValueType.STRING:
            return self.string(f"metadata {key}")
        if type is ValueType.ARRAY:
            return self._array(key, depth + 1)
        code, _ = SCALARS[type]
        value = struct.unpack(code, self.take(struct.calcsize(code), f"metadata {key}"))[0]
        return bool(value) if type is ValueType.BOOL else value

    def _array(self, key: str, depth: int) -> object:
        if depth > NESTING_MAX:
            raise HeaderError(f"metadata {key} nests arrays deeper than {NESTING_MAX}")
        type = self._value_type(key)
        count = self.u64(f"the length of {key}")
        if type is ValueType.STRING:
            return self._strings(key, count)
        if type is ValueType.ARRAY:
            self._check_count(key, count, item_bytes=12)
            return [self._array(key, depth + 1) for _ in range(count)]
        dtype = np.dtype(SCALARS[type][1])
        self._check_count(key, count, item_bytes=dtype.itemsize)
        raw = self.take(count * dtype.itemsize, f"metadata {key}")
        values = np.frombuffer(raw, dtype=dtype).copy()  # the header may be unmapped later
        return values.astype(np.bool_) if type is ValueType.BOOL else values

    def _check_count(self, key: str, count: int, *, item_bytes: int) -> None:
        if count * item_bytes > len(self._data) - self.position:
            raise HeaderError(f"truncated: metadata {key} claims {count} items")

    def _strings(self, key: str, count: int) -> list[str]:
        """A tight loop: vocabularies have a quarter of a million entries."""
        self._check_count(key, count, item_bytes=8)
        data, position, end = self._data, self.position, len(self._data)
        unpack = _U64.unpack_from
        items: list[str] = []
        try:
            for _ in range(count):
                (length,) = unpack(data, position)
                start = position + 8
                position = start + length
                if position > end:
                    raise HeaderError(f"truncated: metadata {key} at offset {start}")
                # Vocabularies of byte-level models may hold tokens that are no UTF-8 on their own.
                items.append(str(data[start:position], "utf-8", "surrogateescape"))
        except struct.error:
            raise HeaderError(f"truncated: metadata {key} at offset {position}") from None
        self.position = position
        return items
