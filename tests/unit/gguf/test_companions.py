"""Model files that come with others: tensors join, and what does not belong is refused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

from engine.errors import ModelFileError
from engine.gguf.reader import open_gguf
from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, write_gguf

MODEL = {"general.architecture": "a", "a.size": 1}


def written(
    path: Path, tensors: Mapping[str, list[float]], metadata: Mapping[str, object] = MODEL
) -> Path:
    sources = []
    for name, values in tensors.items():
        produce = partial(np.array(values, np.float32).view, np.uint8)
        shape = (len(values),)
        source = TensorSource(name=name, shape=shape, type=GGMLType.F32, produce=produce)
        sources.append(source)
    write_gguf(path, dict(metadata), sources)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path / "m.gguf", {"own": [1, 2], "both": [3, 4]})


def test_tensors_of_a_companion_join_and_the_metadata_stays(model: Path, tmp_path: Path) -> None:
    table = written(tmp_path / "t.gguf", {"more": [5.0]}, MODEL | {"a.size": 2})
    with open_gguf(model, companions=[table]) as opened:
        assert set(opened.tensors) == {"own", "both", "more"}
        assert opened.data("more").view(np.float32).tolist() == [5.0]
        assert opened.metadata["a.size"] == 1
        assert [other["a.size"] for other in opened.companion_metadata] == [2]
        assert opened.files == (model, table)


def test_location_is_the_byte_in_the_file_that_holds_the_tensor(
    model: Path, tmp_path: Path
) -> None:
    table = written(tmp_path / "t.gguf", {"more": [5.0, 6.0]})
    with open_gguf(model, companions=[table]) as opened:
        path, offset = opened.location("more")
    assert path == table
    assert np.frombuffer(table.read_bytes(), np.float32, 2, offset).tolist() == [5.0, 6.0]


def test_repeated_tensor_is_the_models_own(model: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "o.gguf", {"both": [8, 9], "more": [5.0]})
    with open_gguf(model, companions=[other]) as opened:
        assert opened.data("both").view(np.float32).tolist() == [3, 4]


def test_repeated_tensor_of_another_shape_is_refused(model: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "o.gguf", {"both": [8, 9, 10]})
    with pytest.raises(ModelFileError, match=r"o.gguf: tensor both is \[3\], the model's is \[2\]"):
        open_gguf(model, companions=[other])


def test_companion_of_another_architecture_is_refused(model: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "o.gguf", {"more": [5.0]}, {"general.architecture": "b"})
    with pytest.raises(ModelFileError, match=r"o.gguf: architecture 'b', the model's is 'a'"):
        open_gguf(model, companions=[other])


def test_mappings_are_closed_when_a_companion_does_not_belong(model: Path, tmp_path: Path) -> None:
    alien = written(tmp_path / "o.gguf", {"more": [5.0]}, {"general.architecture": "b"})
    longer = written(tmp_path / "p.gguf", {"both": [8, 9, 10]})
    for other in (alien, longer):
        with pytest.raises(ModelFileError) as refused:
            open_gguf(model, companions=[other])
        assert refused.value.path == other
        assert not [each for each in psutil.Process().memory_maps() if str(tmp_path) in each.path]


def test_architecture_that_is_no_text_is_refused_by_name(model: Path, tmp_path: Path) -> None:
    numbers = {"general.architecture": np.array([1, 2], np.uint32)}
    other = written(tmp_path / "o.gguf", {"more": [5.0]}, numbers)
    for path, companion in ((model, other), (other, model)):
        with pytest.raises(ModelFileError, match=r"o.gguf: .*architecture is an array of 2"):
            open_gguf(path, companions=[companion])
    with open_gguf(other) as alone:  # whoever needs its architecture refuses it, not the reader
        assert set(alone.tensors) == {"more"}


def test_companion_may_leave_its_architecture_out(model: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "o.gguf", {"more": [5.0]}, {})
    with open_gguf(model, companions=[other]) as opened:
        assert "more" in opened.tensors


def test_companion_may_be_a_split_set(model: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        name = f"t-{number:05d}-of-00002.gguf"
        split = {"split.no": number - 1, "split.count": 2, "split.tensors.count": 2}
        written(tmp_path / name, {f"part{number}": [number]}, MODEL | split)
    with open_gguf(model, companions=[tmp_path / "t-00002-of-00002.gguf"]) as opened:
        assert opened.data("part1").view(np.float32).tolist() == [1]
        assert opened.data("part2").view(np.float32).tolist() == [2]
        assert opened.location("part2")[0].name == "t-00002-of-00002.gguf"


@pytest.mark.parametrize("content", [None, b"", b"GGUFxxxx"])
def test_companion_that_cannot_be_read_is_named_and_nothing_stays_open(
    model: Path, tmp_path: Path, content: bytes | None
) -> None:
    other = tmp_path / "o.gguf"
    if content is not None:
        other.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"o.gguf: ") as refused:
        open_gguf(model, companions=[other])
    # The error, while it is held, holds what its frames hold: only what was closed is gone.
    assert refused.value.path == other
    assert not [each for each in psutil.Process().memory_maps() if str(tmp_path) in each.path]
