"""Routing traces: what is written is read again, whole records only, and damage is named."""

from __future__ import annotations

import os
import resource
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.errors import TraceError
from engine.experts.trace import FLUSH_STEPS, TracedStep, TraceShape, TraceWriter, read_trace

SHAPE = TraceShape(experts=8, expert_bytes=(100, 200, 300))


def step(number: int) -> TracedStep:
    counts = np.zeros((3, 8), np.int32)
    counts[0, number % 8] = 1
    counts[2, [1, 7]] = number, 70_000
    return TracedStep(tokens=number + 1, decode=number % 2 == 0, counts=counts)


def written(path: Path, count: int, first: int = 0) -> Path:
    with closing(TraceWriter(path, SHAPE)) as writer:
        for number in range(first, first + count):
            writer.add(step(number))
    return path


def read(path: Path) -> list[TracedStep]:
    shape, steps = read_trace(path)
    assert shape == SHAPE
    return list(steps)


def assert_steps(steps: list[TracedStep], numbers: range) -> None:
    assert len(steps) == len(numbers)
    for actual, number in zip(steps, numbers, strict=True):
        expected = step(number)
        assert (actual.tokens, actual.decode) == (expected.tokens, expected.decode)
        np.testing.assert_array_equal(actual.counts, np.minimum(expected.counts, 65_535))


def test_steps_come_back_and_large_counts_are_cut(tmp_path: Path) -> None:
    assert_steps(read(written(tmp_path / "t", 150)), range(150))


def test_another_writer_goes_on(tmp_path: Path) -> None:
    written(tmp_path / "t", 3)
    assert_steps(read(written(tmp_path / "t", 4, first=3)), range(7))


@pytest.mark.parametrize("lost", [1, 7, 8, 9, 20])
def test_a_torn_record_is_not_read_and_cut_off_by_the_next_writer(
    tmp_path: Path, lost: int
) -> None:
    path = written(tmp_path / "t", 5)
    os.truncate(path, path.stat().st_size - lost)
    assert_steps(read(path), range(4))
    assert_steps(read(written(path, 2, first=4)), range(6))


def test_a_changed_byte_ends_the_trace(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 5)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    assert_steps(read(path), range(4))


def test_steps_reach_the_file_before_it_is_closed(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t", SHAPE)
    for number in range(FLUSH_STEPS + 1):
        writer.add(step(number))
    assert_steps(read(tmp_path / "t"), range(FLUSH_STEPS))
    writer.close()
    writer.close()
    assert_steps(read(tmp_path / "t"), range(FLUSH_STEPS + 1))


def test_a_full_disk_is_an_error_and_what_was_written_stays(tmp_path: Path) -> None:
    """The last write succeeds in part."""
    path = written(tmp_path / "t", 3)
    size, (soft, hard) = path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = TraceWriter(path, SHAPE)
    writer.add(step(3))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
    try:
        with pytest.raises(TraceError, match="File too large"):
            writer.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.stat().st_size == size
    writer.add(step(3))
    writer.close()
    assert_steps(read(path), range(4))


BAD = {
    "empty": (b"", "not a routing trace"),
    "other": (b"GGUF" + bytes(60), "not a routing trace"),
    "version": (b"LAMTRACE" + bytes([9, 0, 1, 0, 1, 0, 0, 0]), "version 9"),
    "no layers": (b"LAMTRACE" + bytes([1, 0, 0, 0, 8, 0, 0, 0]), "0 layers"),
    "huge": (b"LAMTRACE" + bytes([1, 0, 255, 255, 255, 255, 0, 0]) + bytes(8 * 65_535), "65535"),
    "cut off": (b"LAMTRACE" + bytes([1, 0, 3, 0, 8, 0, 0, 0, 1]), "cut off"),
}


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD.keys())
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "t"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=reason):
        read_trace(path)


def test_a_trace_of_another_model_is_not_added_to(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 3)
    other = TraceShape(experts=8, expert_bytes=(100, 200))
    with pytest.raises(TraceError, match="another model"):
        TraceWriter(path, other)
    assert_steps(read(path), range(3))


def test_whole_records_behind_a_damaged_one_are_not_cut_off(tmp_path: Path) -> None:
    path = written(tmp_path / "t", 5)
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(TraceError, match="damaged at byte"):
        TraceWriter(path, SHAPE)
    assert path.read_bytes() == data


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with closing(TraceWriter(tmp_path / "t", SHAPE)) as writer:
        with pytest.raises(TraceError, match="another process writes it"):
            TraceWriter(tmp_path / "t", SHAPE)
        writer.add(step(0))
    assert_steps(read(tmp_path / "t"), range(1))


def test_a_header_that_does_not_fit_leaves_an_empty_file(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(TraceError, match="File too large"):
            TraceWriter(tmp_path / "t", SHAPE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_steps(read(written(tmp_path / "t", 2)), range(2))


def test_a_missing_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere"):
        TraceWriter(tmp_path / "nowhere" / "t", SHAPE)
    with pytest.raises(TraceError, match="nothing"):
        read_trace(tmp_path / "nothing")
