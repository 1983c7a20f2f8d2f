"""Models in several files: any shard opens the set, and a set that does not fit is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelFileError
from engine.gguf.cursor import ValueType
from engine.gguf.reader import open_gguf
from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, write_split
from helpers.raw_gguf import pair, raw_gguf, tensor


def source(name: str, value: int) -> TensorSource:
    data = np.full(8, value, np.int8)
    return TensorSource(name=name, shape=(8,), type=GGMLType.I8, produce=lambda: data)


def write_set(folder: Path, shards: int = 3) -> list[Path]:
    """Shard n holds tensor `t<n>` full of n."""
    folder.mkdir(exist_ok=True)
    tensors = [[source(f"t{n}", n)] for n in range(shards)]
    return write_split(folder / "model.gguf", {"general.architecture": "llama"}, tensors)


def shard(number: int, count: int, total: int | None = None, name: str = "t") -> bytes:
    """One shard as bytes, with the numbers it is told to claim."""
    pairs = [
        pair("split.no", ValueType.U16, struct.pack("<H", number)),
        pair("split.count", ValueType.U16, struct.pack("<H", count)),
    ]
    if total is not None:
        pairs.append(pair("split.tensors.count", ValueType.I32, struct.pack("<i", total)))
    return raw_gguf(pairs, [tensor(name, (8,), GGMLType.I8)])


def write_pair(folder: Path, first: bytes, second: bytes) -> Path:
    path = folder / "m-00001-of-00002.gguf"
    path.write_bytes(first)
    path.with_name("m-00002-of-00002.gguf").write_bytes(second)
    return path


@pytest.mark.parametrize("opened", [0, 1, 2])
def test_any_shard_opens_the_set(opened: int, tmp_path: Path) -> None:
    files = write_set(tmp_path)
    with open_gguf(files[opened]) as model:
        assert list(model.files) == files
        assert model.architecture == "llama"
        assert [model.tensors[f"t{n}"].file_index for n in range(3)] == [0, 1, 2]
        assert [int(model.data(f"t{n}")[0]) for n in range(3)] == [0, 1, 2]


def test_set_of_one_shard_opens(tmp_path: Path) -> None:
    (file,) = write_set(tmp_path, shards=1)
    with open_gguf(file) as model:
        assert model.data("t0").tolist() == [0] * 8


def test_missing_sibling_is_named(tmp_path: Path) -> None:
    files = write_set(tmp_path)
    files[1].unlink()
    with pytest.raises(ModelFileError, match=r"shard model-00002-of-00003\.gguf .* is missing"):
        open_gguf(files[0])


def test_broken_sibling_is_named(tmp_path: Path) -> None:
    files = write_set(tmp_path)
    files[2].write_bytes(b"GGUF")
    with pytest.raises(ModelFileError, match=r"model-00003-of-00003\.gguf: truncated"):
        open_gguf(files[0])


def test_last_shard_may_be_a_link_that_other_sets_share(tmp_path: Path) -> None:
    shared = tmp_path / "shared.gguf"
    shared.write_bytes(shard(6, 7, name="table"))
    path = write_pair(tmp_path, shard(0, 2, total=2), b"")
    second = path.with_name("m-00002-of-00002.gguf")
    second.unlink()
    second.symlink_to(shared)
    for opened in (path, second):
        with open_gguf(opened) as model:
            assert sorted(model.tensors) == ["t", "table"]


def test_set_behind_links_finds_siblings_by_the_names_it_was_given(tmp_path: Path) -> None:
    files = write_set(tmp_path / "blobs", shards=2)
    folder = tmp_path / "names"
    folder.mkdir()
    for number, file in enumerate(files, 1):
        (folder / f"other-{number:05d}-of-00002.gguf").symlink_to(file)
    with open_gguf(folder / "other-00002-of-00002.gguf") as model:
        assert sorted(model.tensors) == ["t0", "t1"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (shard(0, 3), shard(1, 3, name="u"), "m-00001.*split.count is 3, .* name says 2"),
        (shard(0, 2), shard(1, 3, name="u"), "m-00002.*split.count is 3, .* name says 2"),
        (shard(0, 2), raw_gguf(), "m-00002.*split.count is 1, .* name says 2"),
        (shard(1, 2), shard(1, 2, name="u"), "m-00001.*split.no is not 0"),
        (shard(0, 2), shard(0, 2, name="u"), "m-00002.*split.no is not 1"),
        (shard(0, 2, total=5), shard(1, 2, name="u"), "the split set has 2 tensors, not 5"),
        (shard(0, 2), shard(1, 2), "m-00002.*tensor t occurs twice"),
    ],
)
def test_set_that_does_not_fit_is_refused(
    first: bytes, second: bytes, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelFileError, match=reason):
        open_gguf(write_pair(tmp_path, first, second))


@pytest.mark.parametrize("name", ["m-00003-of-00002.gguf", "m-00000-of-00002.gguf"])
def test_shard_number_outside_the_set_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(shard(0, 2))
    with pytest.raises(ModelFileError, match="a shard number outside the split set"):
        open_gguf(path)


def test_refused_set_leaves_nothing_mapped(tmp_path: Path) -> None:
    path = write_pair(tmp_path, shard(0, 2), b"GGUF")
    with pytest.raises(ModelFileError):
        open_gguf(path)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
