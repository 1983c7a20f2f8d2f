"""Reading well-formed files: versions, metadata of every type, alignment, views of the data."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelFileError
from engine.gguf.cursor import SCALARS, ValueType
from engine.gguf.quants import dequantize
from engine.gguf.reader import open_gguf
from engine.gguf.types import GGMLType
from helpers.raw_gguf import array, pair, raw_gguf, raw_string, tensor, text_pair, u32_pair
from helpers.tiny_gguf import TinyModel, stored_weights, write_model

ARCHITECTURE = text_pair("general.architecture", "llama")


def write(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("version", [2, 3])
def test_reader_opens_versions_two_and_three(version: int, tmp_path: Path) -> None:
    data = np.arange(8, dtype="<f4")
    raw = raw_gguf([ARCHITECTURE], [tensor()], data.tobytes(), version=version)
    with open_gguf(write(tmp_path / "m.gguf", raw)) as model:
        assert model.architecture == "llama"
        assert model.data("t").view("<f4").tolist() == data.tolist()


SCALAR_VALUES: dict[ValueType, object] = {
    ValueType.U8: 255,
    ValueType.I8: -128,
    ValueType.U16: 65535,
    ValueType.I16: -32768,
    ValueType.U32: 2**32 - 1,
    ValueType.I32: -(2**31),
    ValueType.F32: 0.5,
    ValueType.BOOL: True,
    ValueType.U64: 2**64 - 1,
    ValueType.I64: -(2**63),
    ValueType.F64: 1e300,
}


@pytest.mark.parametrize(("type", "value"), SCALAR_VALUES.items(), ids=lambda x: str(x))
def test_reader_reads_scalars_of_every_type(type: ValueType, value: object, tmp_path: Path) -> None:
    payload = struct.pack(SCALARS[type][0], value)
    with open_gguf(write(tmp_path / "m.gguf", raw_gguf([pair("k", type, payload)]))) as model:
        read = model.metadata["k"]
    assert read == value
    assert read.__class__ is value.__class__


@pytest.mark.parametrize(("type", "value"), SCALAR_VALUES.items(), ids=lambda x: str(x))
def test_reader_reads_arrays_of_every_type(type: ValueType, value: object, tmp_path: Path) -> None:
    code, dtype = SCALARS[type]
    items = array(type, 3, struct.pack(code, value) * 3)
    raw = raw_gguf([pair("k", ValueType.ARRAY, items)])
    with open_gguf(write(tmp_path / "m.gguf", raw)) as model:
        read = model.metadata["k"]
    assert isinstance(read, np.ndarray)
    assert read.dtype == (np.bool_ if type is ValueType.BOOL else np.dtype(dtype))
    assert read.tolist() == [value] * 3


def test_reader_keeps_token_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    items = array(ValueType.STRING, 3, raw_string("ä") + raw_string(b"\xff\xfe") + raw_string(""))
    raw = raw_gguf([pair("k", ValueType.ARRAY, items)])
    with open_gguf(write(tmp_path / "m.gguf", raw)) as model:
        read = model.metadata["k"]
    assert isinstance(read, list)
    assert [text.encode("utf-8", "surrogateescape") for text in read] == [
        "ä".encode(),
        b"\xff\xfe",
        b"",
    ]


def test_reader_reads_nested_arrays(tmp_path: Path) -> None:
    inner = array(ValueType.U8, 2, b"\x01\x02"), array(ValueType.STRING, 1, raw_string("x"))
    items = array(ValueType.ARRAY, 2, b"".join(inner))
    raw = raw_gguf([pair("k", ValueType.ARRAY, items)])
    with open_gguf(write(tmp_path / "m.gguf", raw)) as model:
        read = model.metadata["k"]
    assert isinstance(read, list)
    assert [list(item) for item in read] == [[1, 2], ["x"]]


def test_metadata_outlives_the_file(tmp_path: Path) -> None:
    items = array(ValueType.F32, 2, struct.pack("<2f", 1, 2))
    raw = raw_gguf([pair("k", ValueType.ARRAY, items)])
    with open_gguf(write(tmp_path / "m.gguf", raw)) as model:
        metadata = model.metadata
    read = metadata["k"]
    assert isinstance(read, np.ndarray)
    assert read.tolist() == [1, 2]


@pytest.mark.parametrize("alignment", [8, 32, 64, 4096])
def test_reader_keeps_the_alignment_of_the_file(alignment: int, tmp_path: Path) -> None:
    second = max(32, alignment)
    data = bytes(range(32)) + bytes(second - 32) + bytes(range(32, 64))
    raw = raw_gguf(
        [u32_pair("general.alignment", alignment)],
        [tensor("a", (32,), GGMLType.I8), tensor("b", (32,), GGMLType.I8, second)],
        data,
        alignment=alignment,
    )
    with open_gguf(write(tmp_path / "m.gguf", raw)) as model:
        assert model.data("a").tolist() == list(range(32))
        assert model.data("b").tolist() == list(range(32, 64))
        assert all(info.offset % alignment == 0 for info in model.tensors.values())


def test_reader_takes_tensors_in_any_order(tmp_path: Path) -> None:
    tensors = [tensor("b", (8,), GGMLType.I8, 32), tensor("a", (8,), GGMLType.I8, 0)]
    raw = raw_gguf([], tensors, bytes([1] * 32 + [2] * 32))
    with open_gguf(write(tmp_path / "m.gguf", raw)) as model:
        assert list(model.tensors) == ["b", "a"]
        assert model.data("a").tolist() == [1] * 8
        assert model.data("b").tolist() == [2] * 8


@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.F16, GGMLType.Q8_0])
def test_reader_finds_the_weights_that_were_written(type: GGMLType, tmp_path: Path) -> None:
    tiny = TinyModel(type=type, layers=1)
    with open_gguf(write_model(tmp_path / "m.gguf", tiny)) as model:
        for name, values in stored_weights(tiny).items():
            info = model.tensors[name]
            read = dequantize(model.data(name), info.type).reshape(values.shape)
            assert info.shape == tuple(reversed(values.shape))
            assert info.num_elements == values.size
            assert np.array_equal(read, values), name
        assert set(model.tensors) == set(stored_weights(tiny))


def test_data_is_a_read_only_view_of_the_mapping(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", raw_gguf([], [tensor()], bytes(32)))
    with open_gguf(path) as model:
        view, again = model.data("t"), model.data("t")
    assert not view.flags.writeable
    assert not view.flags.owndata
    assert np.shares_memory(view, again)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with path.open("r+b") as file:  # another process changes the file: the view shows it
        file.seek(-32, 2)
        file.write(b"\x07")
    assert view[0] == 7


def test_closed_model_frees_its_mapping_unless_a_view_lives(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", raw_gguf([], [tensor()], bytes(32)))
    held = open_gguf(path)
    view = held.data("t")
    held.close()
    assert view.tolist() == [0] * 32
    assert str(path) in mapped_files()
    del view, held
    assert str(path) not in mapped_files()


def mapped_files() -> str:
    return Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("raw", [b"GGUF", raw_gguf([pair(b"\xff", 8, raw_string("x"))])])
def test_refused_file_is_unmapped(raw: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", raw)
    with pytest.raises(ModelFileError) as caught:
        open_gguf(path)
    assert str(path) in str(caught.value)
    assert str(path) not in mapped_files()


def test_reader_opens_files_beyond_four_gibibytes(tmp_path: Path) -> None:
    far = (4 << 30) + 64
    header = raw_gguf([], [tensor("near"), tensor("far", (8,), offset=far)], b"")
    path = tmp_path / "m.gguf"
    with path.open("wb") as file:  # sparse: the hole takes no room
        file.write(header)
        file.seek(len(header) + far)
        file.write(np.arange(8, dtype="<f4").tobytes())
    assert path.stat().st_size > 4 << 30
    with open_gguf(path) as model:
        assert model.tensors["far"].offset == len(header) + far
        assert model.data("far").view("<f4").tolist() == list(range(8))
        assert not model.data("near").any()
