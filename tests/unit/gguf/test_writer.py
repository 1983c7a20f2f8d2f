"""Files that we write: what the reader and the gguf package read in them."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.gguf.cursor import ValueType
from engine.gguf.reader import open_gguf
from engine.gguf.types import LAYOUTS, GGMLType
from engine.gguf.writer import TensorBytes, TensorSource, Typed, write_gguf
from helpers.tiny_gguf import TinyModel, stored_weights, tiny_metadata, write_model

PLAIN: dict[str, object] = {
    "zero": 0,
    "most": 2**32 - 1,
    "negative": -5,
    "half": 0.5,
    "yes": True,
    "text": "ä\n",
    "empty": "",
    "numbers": [1, 2, 3],
    "signed": [1, -2],
    "floats": [0.5, 1.5],
    "texts": ["a", "", "é"],
    "flags": [True, False],
    "array": np.arange(4, dtype=np.uint16),
}


def source(name: str, shape: tuple[int, ...], type: GGMLType, data: bytes) -> TensorSource:
    return TensorSource(name=name, shape=shape, type=type, produce=lambda: data)


def test_plain_values_come_back(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_gguf(path, PLAIN, [])
    with open_gguf(path) as model:
        read = dict(model.metadata)
    assert list(read) == list(PLAIN)
    for key, value in PLAIN.items():
        actual = read[key]
        assert (actual.tolist() if isinstance(actual, np.ndarray) else actual) == (
            value.tolist() if isinstance(value, np.ndarray) else value
        ), key


@pytest.mark.parametrize("type", [t for t in ValueType if t is not ValueType.ARRAY])
def test_typed_values_come_back(type: ValueType, tmp_path: Path) -> None:
    value: object = {ValueType.STRING: "s", ValueType.BOOL: True}.get(type, 1)
    path = tmp_path / "m.gguf"
    write_gguf(path, {"one": Typed(type, value), "none": Typed(type, [])}, [])
    with open_gguf(path) as model:
        assert model.metadata["one"] == value
        none = model.metadata["none"]
    assert isinstance(none, np.ndarray | list)
    assert len(none) == 0


@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_every_tensor_type_comes_back(alignment: int, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    content = {type: random.bytes(3 * 2 * LAYOUTS[type].num_bytes) for type in GGMLType}
    sources = [
        source(f"t{type.name}", (2 * LAYOUTS[type].elements, 3), type, data)
        for type, data in content.items()
    ]
    path = tmp_path / "m.gguf"
    write_gguf(path, {}, sources, alignment=alignment)
    with open_gguf(path) as model:
        for type, data in content.items():
            assert model.tensors[f"t{type.name}"].type is type
            assert model.data(f"t{type.name}").tobytes() == data


@pytest.mark.parametrize("type", [GGMLType.F32, GGMLType.F16, GGMLType.Q8_0])
def test_gguf_package_reads_the_same_model(type: GGMLType, tmp_path: Path) -> None:
    tiny = TinyModel(type=type, layers=1)
    reader = gguf.GGUFReader(write_model(tmp_path / "m.gguf", tiny))
    weights = stored_weights(tiny)
    assert [tensor.name for tensor in reader.tensors] == list(weights)
    for tensor in reader.tensors:
        expected = weights[tensor.name]
        assert tuple(tensor.shape) == tuple(reversed(expected.shape))
        read = gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type)
        assert np.array_equal(read.reshape(expected.shape), expected), tensor.name
    for key, value in tiny_metadata(tiny).items():
        plain = value.value if isinstance(value, Typed) else value
        assert reader.fields[key].contents() == pytest.approx(plain), key


def test_we_read_what_the_gguf_package_writes(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    values = np.random.default_rng(2).standard_normal((6, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint64("big", 2**40)
    writer.add_array("words", ["one", "zwei"])
    writer.add_array("nested", [[1, 2], [3]])
    packed = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("w", packed, raw_dtype=gguf.GGMLQuantizationType.Q4_0)
    writer.add_tensor("v", values[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_gguf(path) as model:
        assert model.architecture == "llama"
        assert model.metadata["big"] == 2**40
        assert model.metadata["words"] == ["one", "zwei"]
        assert model.tensors["w"].shape == (64, 6)
        assert model.tensors["w"].type is GGMLType.Q4_0
        assert model.data("w").tobytes() == packed.tobytes()
        assert model.data("v").view("<f4").tolist() == values[0].tolist()


def test_layouts_are_those_of_the_gguf_package() -> None:
    sizes = {t.name: gguf.GGML_QUANT_SIZES[t] for t in gguf.GGMLQuantizationType}
    ours = {type.name: (layout.elements, layout.num_bytes) for type, layout in LAYOUTS.items()}
    shared = ours.keys() & sizes.keys()
    different = {name for name in shared if sizes[name] != ours[name]}
    assert len(shared) >= 33
    assert different <= {"Q8_1"}  # the package counts 40 bytes; ggml's struct has 36
    assert {t.name: int(t) for t in GGMLType if t.name in shared} == {
        t.name: int(t) for t in gguf.GGMLQuantizationType if t.name in shared
    }


@pytest.mark.parametrize("data", [bytes(31), bytes(33)])
def test_source_that_breaks_its_promise_is_refused(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"w: 3\d bytes produced, 32 declared"):
        write_gguf(tmp_path / "m.gguf", {}, [source("w", (8,), GGMLType.F32, data)])


def test_pieces_of_a_tensor_come_back_in_order(tmp_path: Path) -> None:
    pieces: list[TensorBytes] = [
        b"abcd",
        np.arange(6, dtype="<u2"),
        b"",
        np.zeros((4, 4), np.uint8),
    ]
    whole = b"abcd" + np.arange(6, dtype="<u2").tobytes() + bytes(16)
    inner = TensorSource(name="w", shape=(8,), type=GGMLType.F32, produce=lambda: iter(pieces))
    path = tmp_path / "m.gguf"
    write_gguf(path, {}, [inner, source("v", (1,), GGMLType.F32, b"last")])
    with open_gguf(path) as model:
        assert model.data("w").tobytes() == whole
        assert model.data("v").tobytes() == b"last"


@pytest.mark.parametrize("count", [3, 5])
def test_pieces_that_break_their_promise_are_refused(count: int, tmp_path: Path) -> None:
    pieces = [bytes(8)] * count
    wrong = TensorSource(name="w", shape=(8,), type=GGMLType.F32, produce=lambda: iter(pieces))
    with pytest.raises(ValueError, match=f"w: {8 * count} bytes produced, 32 declared"):
        write_gguf(tmp_path / "m.gguf", {}, [wrong])


@pytest.mark.parametrize("value", [None, {}, [], [1, "a"], b"raw"])
def test_value_without_a_type_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_gguf(tmp_path / "m.gguf", {"k": value}, [])


@pytest.mark.parametrize("value", [2**32, -(2**31) - 1])
def test_number_beyond_its_type_is_refused(value: int, tmp_path: Path) -> None:
    with pytest.raises(struct.error):
        write_gguf(tmp_path / "m.gguf", {"k": value}, [])
