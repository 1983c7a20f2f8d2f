"""Files that cannot be right are refused with one line that names the file and the reason."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.errors import QUOTED_MAX, ModelFileError, printable
from engine.gguf.cursor import NESTING_MAX, ValueType
from engine.gguf.reader import open_gguf
from engine.gguf.types import REMOVED_TYPES, GGMLType
from helpers.raw_gguf import array, pair, raw_gguf, raw_string, tensor, text_pair, u32_pair

HUGE = 2**64 - 1
I8 = GGMLType.I8


def strings(*lengths: int) -> bytes:
    """A pair with an array of strings of which only the lengths are there."""
    items = b"".join(struct.pack("<Q", length) for length in lengths)
    return pair("k", ValueType.ARRAY, array(ValueType.STRING, len(lengths), items))


def nested(depth: int) -> bytes:
    payload = array(ValueType.U8, 0)
    for _ in range(depth):
        payload = array(ValueType.ARRAY, 1, payload)
    return pair("k", ValueType.ARRAY, payload)


def with_tensors(*tensors: bytes, data: int = 64) -> bytes:
    return raw_gguf([], tensors, bytes(data))


HOSTILE: dict[str, tuple[bytes, str]] = {
    "three bytes": (b"GGU", "not a GGUF file"),
    "magic alone": (b"GGUF", "truncated: the version"),
    "another magic": (raw_gguf(magic=b"GGML"), "not a GGUF file"),
    "random bytes": (np.random.default_rng(1).bytes(4096), "not a GGUF file"),
    "random after the magic": (
        b"GGUF\x03\0\0\0" + np.random.default_rng(2).bytes(4096),
        "more than a file of",
    ),
    "zip archive": (b"PK\x03\x04" + bytes(64), "not a GGUF file"),
    "version 1": (raw_gguf(version=1), "version 1 is not supported"),
    "version 4": (raw_gguf(version=4), "version 4 is not supported"),
    "version 0": (raw_gguf(version=0), "version 0 is not supported"),
    "big-endian": (
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        "big-endian GGUF files are not supported",
    ),
    "header cut short": (raw_gguf()[:20], "truncated: the metadata count"),
    "absurd tensor count": (raw_gguf(num_tensors=HUGE), f"claims {HUGE} tensors"),
    "absurd pair count": (raw_gguf(num_pairs=1 << 62), f"claims {1 << 62} metadata pairs"),
    "one tensor too many": (raw_gguf(num_tensors=1), "a tensor without a name"),
    "one pair too many": (raw_gguf(num_pairs=1), "a metadata key without a name"),
    "key of absurd length": (raw_gguf([raw_string("k", HUGE)]), f"claims {HUGE} bytes"),
    "key of 64 KiB": (raw_gguf([text_pair("k" * 65536, "")]), "a metadata key claims 65536 bytes"),
    "key beyond the end": (
        raw_gguf([raw_string("k", 60000) + bytes(24)]),
        "truncated: a metadata key needs 60000 bytes",
    ),
    "key not UTF-8": (raw_gguf([text_pair(b"\xff\xfe", "x")]), "a metadata key is not UTF-8"),
    "value not UTF-8": (raw_gguf([text_pair("k", b"\xc3")]), "metadata k is not UTF-8"),
    "tensor name not UTF-8": (with_tensors(tensor(b"\x80")), "a tensor name is not UTF-8"),
    "string of absurd length": (
        raw_gguf([pair("k", ValueType.STRING, raw_string("x", HUGE))]),
        f"metadata k claims {HUGE} bytes",
    ),
    "string beyond the end": (
        raw_gguf([pair("k", ValueType.STRING, raw_string("x", 1 << 20))]),
        f"metadata k needs {1 << 20} bytes",
    ),
    "unknown value type": (
        raw_gguf([pair("k", 13, bytes(8))]),
        "metadata k has unknown value type 13",
    ),
    "unknown item type": (
        raw_gguf([pair("k", ValueType.ARRAY, array(99, 1, bytes(8)))]),
        "metadata k has unknown value type 99",
    ),
    "absurd array": (
        raw_gguf([pair("k", ValueType.ARRAY, array(ValueType.U8, HUGE))]),
        f"metadata k claims {HUGE} items",
    ),
    "absurd array of strings": (
        raw_gguf([pair("k", ValueType.ARRAY, array(ValueType.STRING, 1 << 60))]),
        f"metadata k claims {1 << 60} items",
    ),
    "absurd array of arrays": (
        raw_gguf([pair("k", ValueType.ARRAY, array(ValueType.ARRAY, 1 << 60))]),
        f"metadata k claims {1 << 60} items",
    ),
    "array whose size overflows": (
        raw_gguf([pair("k", ValueType.ARRAY, array(ValueType.U64, 1 << 61))]),
        f"metadata k claims {1 << 61} items",
    ),
    "item of absurd length": (raw_gguf([strings(HUGE)]), "truncated: metadata k"),
    "items beyond the end": (raw_gguf([strings(0, 1 << 40, 0)]), "truncated: metadata k"),
    "arrays nested too deep": (
        raw_gguf([nested(NESTING_MAX)]),
        f"metadata k nests arrays deeper than {NESTING_MAX}",
    ),
    "arrays nested without end": (raw_gguf([nested(50_000)]), "metadata k nests arrays deeper"),
    "key twice": (raw_gguf([u32_pair("k", 1), u32_pair("k", 1)]), "metadata k occurs twice"),
    "alignment 0": (raw_gguf([u32_pair("general.alignment", 0)]), "general.alignment is 0"),
    "alignment 24": (raw_gguf([u32_pair("general.alignment", 24)]), "general.alignment is 24"),
    "alignment 2 GiB": (raw_gguf([u32_pair("general.alignment", 1 << 31)]), "general.alignment"),
    "alignment a string": (
        raw_gguf([text_pair("general.alignment", "32")]),
        "metadata general.alignment is '32', not a whole number",
    ),
    "tensor without a name": (with_tensors(tensor("")), "a tensor without a name"),
    "tensor name of absurd length": (
        with_tensors(raw_string("t", HUGE) + bytes(64)),
        f"a tensor name claims {HUGE} bytes",
    ),
    "no dimensions": (with_tensors(tensor("t", ())), "tensor t has 0 dimensions"),
    "five dimensions": (with_tensors(tensor("t", (1,) * 5)), "tensor t has 5 dimensions"),
    "absurd dimensions": (
        with_tensors(tensor("t", (8,), dimensions=2**32 - 1)),
        f"tensor t has {2**32 - 1} dimensions",
    ),
    "a dimension of 0": (with_tensors(tensor("t", (8, 0))), "tensor t has impossible dimensions"),
    "product overflow": (
        with_tensors(tensor("t", (2**32, 2**32, 2**32, 2**32))),
        "tensor t has impossible dimensions",
    ),
    "product that wraps to 0": (
        with_tensors(tensor("t", (2**63, 2))),
        "tensor t has impossible dimensions",
    ),
    "row no multiple of its block": (
        with_tensors(tensor("t", (33,), GGMLType.Q8_0)),
        "tensor t: a row of 33 is not a multiple of 32, the block of Q8_0",
    ),
    "unknown type": (with_tensors(tensor("t", type=99)), "tensor t is of unknown type 99"),
    "type beyond the table": (with_tensors(tensor("t", type=2**31)), "is of unknown type"),
    "tensor twice": (with_tensors(tensor(), tensor(offset=32)), "tensor t occurs twice"),
    "tensors overlap": (
        with_tensors(tensor("a", (40,), I8), tensor("b", (8,), I8, 32)),
        "tensors a and b overlap",
    ),
    "tensors on the same bytes": (with_tensors(tensor("a"), tensor("b")), "a and b overlap"),
    "misaligned": (with_tensors(tensor(offset=8)), "tensor t is not aligned to 32 bytes"),
    "outside the file": (with_tensors(tensor(offset=96)), "truncated: tensor t ends at"),
    "far outside the file": (with_tensors(tensor(offset=HUGE - 31)), "truncated: tensor t ends"),
    "longer than the file": (with_tensors(tensor("t", (1 << 40,))), "truncated: tensor t ends"),
    "one byte short": (with_tensors(tensor("t", (16,)))[:-1], "truncated: tensor t ends at"),
    "split without siblings": (
        raw_gguf([pair("split.count", ValueType.U16, b"\x02\0")]),
        "split.count is 2, but the file's name says 1",
    ),
    **{
        f"removed type {name}": (
            with_tensors(tensor("t", (32,), number)),
            f"tensor t is of type {name} ({number}), which ggml dropped",
        )
        for number, name in REMOVED_TYPES.items()
    },
}


def refusal(path: Path) -> str:
    """The message of the refusal, which is one line of printable text that begins with the file."""
    with pytest.raises(ModelFileError) as caught:
        open_gguf(path)
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith(f"{path}: ")
    assert caught.value.path == path
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(("raw", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_file_is_refused_by_name(raw: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(raw)
    assert reason in refusal(path)


NOT_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "No such file or directory"),
    "empty": (lambda path: path.touch(), "the file is empty"),
    "directory": (lambda path: path.mkdir(), "not a regular file"),
    "pipe": (lambda path: os.mkfifo(path), "not a regular file"),
    "link to nothing": (lambda path: path.symlink_to("nothing"), "No such file or directory"),
    "link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
}


@pytest.mark.parametrize(("make", "reason"), NOT_FILES.values(), ids=NOT_FILES.keys())
def test_what_is_no_file_is_refused(
    make: Callable[[Path], object], reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    make(path)
    assert reason in refusal(path)


@pytest.mark.parametrize("name", ["x" * 300 + ".gguf", "x" * 300 + "-00001-of-00002.gguf"])
def test_name_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    assert refusal(tmp_path / name)


def test_name_with_a_zero_byte_is_refused() -> None:
    with pytest.raises(ModelFileError, match=r"a\\x00b: .*null byte"):
        open_gguf("a\0b")


EVIL = "a\x1b]0;owned\x07\nline two\u202e\x9b31m"


@pytest.mark.parametrize(
    "raw",
    [
        raw_gguf([u32_pair(EVIL, 1), u32_pair(EVIL, 1)]),
        raw_gguf([pair(EVIL, 99, b"")]),
        with_tensors(tensor(EVIL, type=99)),
        with_tensors(tensor(EVIL), tensor("b")),
        raw_gguf([pair("general.alignment", ValueType.STRING, raw_string(EVIL))]),
    ],
    ids=["key", "value type", "tensor type", "overlap", "value"],
)
def test_control_characters_never_reach_the_message(raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(raw)
    reason = refusal(path)
    assert "\\x1b]0;owned" in reason
    assert "\\n" in reason


def test_long_names_are_cut_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(raw_gguf([u32_pair("k" * 60000, 1), u32_pair("k" * 60000, 1)]))
    reason = refusal(path)
    assert len(reason) <= 2 * QUOTED_MAX + 3
    assert reason.endswith("occurs twice")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain ünïcode 専門家", "plain ünïcode 専門家"), ("a\tb", "a\\tb"), ("\udcff", "\\udcff")],
)
def test_printable_escapes_only_what_it_must(text: str, shown: str) -> None:
    assert printable(text) == shown
