"""Routing traces: which experts each step used, for work on cache policies. No text, no token ids.

A file is a header and then one record per step, little-endian:

    header   "LAMTRACE", version u16, layers u16, experts u16, zero u16, then per layer: bytes of an
             expert u64
    record   bytes of the payload u32, their crc32 u32, payload
    payload  tokens u32, decode u8, then per layer: experts used u16, their ids u16 each,
             ascending, and their tokens u16 each (65,535 stands for more)

Written by `engine.step` when it is asked to, read by the policy lab. Records are appended and never
changed: a process that is killed loses what it had not written yet, and whoever opens the file for
more cuts off a torn record first.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from engine.errors import TraceError

MAGIC, VERSION = b"LAMTRACE", 1
HEADER = struct.Struct("<8sHHHH")
RECORD = struct.Struct("<II")
STEP = struct.Struct("<IB")
TOKENS_MAX = 65_535
PAYLOAD_MAX = 64 << 20  # a larger one is damage
KEYS_MAX = 1 << 20  # layers * experts
FLUSH_STEPS = 64
Counts = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceShape:
    """What the steps of a trace are of."""

    experts: int
    expert_bytes: tuple[int, ...]  # per layer

    @property
    def layers(self) -> int:
        return len(self.expert_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedStep:
    """One step. `counts` (layers, experts) int32: tokens that used each expert."""

    tokens: int
    decode: bool  # one token of each sequence, nothing else
    counts: Counts


class TraceWriter:
    """Appends steps to a file. Raises TraceError for one of another model."""

    def __init__(self, path: Path, shape: TraceShape) -> None:
        self._path = path
        self._shape = shape
        self._unwritten: list[bytes] = []
        try:
            self._file = path.open("a+b", buffering=0)  # what fails is not tried again at the end
        except OSError as error:
            raise TraceError(path, error.strerror or str(error)) from None
        try:
            self._begin()
        except OSError as error:
            self._file.close()
            raise TraceError(path, error.strerror or str(error)) from None
        except TraceError:
            self._file.close()
            raise

    @property
    def layers(self) -> int:
        """How many layers the steps must have."""
        return self._shape.layers

    def add(self, step: TracedStep) -> None:
        """One more step; it is on its way to the file within FLUSH_STEPS of them."""
        payload = _payload(step)
        self._unwritten.append(RECORD.pack(len(payload), zlib.crc32(payload)) + payload)
        if len(self._unwritten) >= FLUSH_STEPS:
            self.flush()

    def flush(self) -> None:
        """Write what was added. Raises TraceError, and what was not written whole is cut off."""
        data, self._unwritten = b"".join(self._unwritten), []
        try:
            self._write(data)
        except OSError as error:
            raise TraceError(self._path, error.strerror or str(error)) from None

    def close(self) -> None:
        """Write the rest and close; closing twice is fine. Raises TraceError."""
        try:
            if self._unwritten:
                self.flush()
        finally:
            with suppress(OSError):  # nothing is left that could be lost
                self._file.close()

    def _write(self, data: bytes) -> None:
        """All of it or nothing: a file that is nearly full takes a part first."""
        end = self._file.seek(0, os.SEEK_END)
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with suppress(OSError):  # then the next writer cuts it off
                self._file.truncate(end)
            raise

    def _begin(self) -> None:
        """A header in an empty file; behind the last whole record of another."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TraceError(self._path, "another process writes it") from None
        size = self._file.seek(0, os.SEEK_END)
        if size == 0:
            self._write(_header(self._shape))
            return
        with self._path.open("rb") as file:
            if read_shape(file, self._path) != self._shape:
                raise TraceError(self._path, "it is the trace of another model")
            end = file.tell() + sum(RECORD.size + len(payload) for payload in _payloads(file))
            file.seek(end)
            head = file.read(RECORD.size)
        # A torn record is the last one. Whole records behind a bad one are not ours to throw away.
        if len(head) == RECORD.size and end + RECORD.size + RECORD.unpack(head)[0] < size:
            raise TraceError(self._path, f"damaged at byte {end}; move it away")
        self._file.truncate(end)


def read_trace(path: Path) -> tuple[TraceShape, Iterator[TracedStep]]:
    """The shape of a trace, and its steps as far as they are whole. Raises TraceError."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from None
    try:
        shape = read_shape(file, path)
    except TraceError:
        file.close()
        raise
    return shape, _steps(file, path, shape)


def read_shape(file: BinaryIO, path: Path) -> TraceShape:
    """The header, from the beginning of a file. Raises TraceError."""
    raw = file.read(HEADER.size)
    if len(raw) < HEADER.size or raw[:8] != MAGIC:
        raise TraceError(path, "not a routing trace")
    _, version, layers, experts, _ = HEADER.unpack(raw)
    if version != VERSION:
        raise TraceError(path, f"version {version} of routing traces, {VERSION} is known")
    sizes = file.read(8 * layers)
    if len(sizes) < 8 * layers or not 0 < layers * experts <= KEYS_MAX:
        raise TraceError(path, f"a header of {layers} layers with {experts} experts, cut off")
    return TraceShape(experts=experts, expert_bytes=struct.unpack(f"<{layers}Q", sizes))


def _header(shape: TraceShape) -> bytes:
    head = HEADER.pack(MAGIC, VERSION, shape.layers, shape.experts, 0)
    return head + struct.pack(f"<{shape.layers}Q", *shape.expert_bytes)


def _payload(step: TracedStep) -> bytes:
    parts = [STEP.pack(step.tokens, step.decode)]
    for counts in step.counts:
        ids = np.flatnonzero(counts)
        pairs = np.concatenate([ids, np.minimum(counts[ids], TOKENS_MAX)])
        parts += [struct.pack("<H", ids.size), pairs.astype("<u2").tobytes()]
    return b"".join(parts)


def _payloads(file: BinaryIO) -> Iterator[bytes]:
    """Whole records, up to the first that is not."""
    while len(head := file.read(RECORD.size)) == RECORD.size:
        size, checksum = RECORD.unpack(head)
        if size > PAYLOAD_MAX:
            return
        payload = file.read(size)
        if len(payload) < size or zlib.crc32(payload) != checksum:
            return
        yield payload


def _steps(file: BinaryIO, path: Path, shape: TraceShape) -> Iterator[TracedStep]:
    with file:
        for number, payload in enumerate(_payloads(file)):
            try:
                yield _step(payload, shape)
            except (struct.error, ValueError, IndexError):
                raise TraceError(path, f"step {number} is not one of this model") from None


def _step(payload: bytes, shape: TraceShape) -> TracedStep:
    tokens, decode = STEP.unpack_from(payload)
    counts = np.zeros((shape.layers, shape.experts), np.int32)
    at = STEP.size
    for layer in range(shape.layers):
        (used,) = struct.unpack_from("<H", payload, at)
        pairs = np.frombuffer(payload, "<u2", 2 * used, at + 2)
        counts[layer, pairs[:used]] = pairs[used:]
        at += 2 + 4 * used
    if at != len(payload):
        raise ValueError("bytes behind the last layer")
    return TracedStep(tokens=tokens, decode=bool(decode), counts=counts)
