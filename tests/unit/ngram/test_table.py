"""The n-gram table on disk: rows of every type, in any order, and everything that can go wrong."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from engine.errors import ModelFileError, StorageError
from engine.gguf.quants import dequantize
from engine.gguf.reader import open_gguf
from engine.gguf.shape.qwen4exp import NGRAM_TABLE
from engine.gguf.types import GGMLType, row_bytes
from engine.ngram.table import REQUESTS_MAX, NgramTable
from helpers.qwen4exp_vectors import quantised
from helpers.weights import KERNEL_TYPES, random_matrix

OFFSET, ROWS, WIDTH = 4096 + 32, 300, 256
MIB = 1 << 20


def written(path: Path, type: GGMLType = GGMLType.F32) -> NDArray[np.float32]:
    """A file with a table in it; returns the table's values."""
    raw = random_matrix(type, ROWS, WIDTH).data
    path.write_bytes(bytes(OFFSET) + raw.tobytes() + b"behind")
    values = dequantize(raw.reshape(ROWS, -1), type)
    return np.asarray(values, np.float32).reshape(ROWS, WIDTH)


def opened(path: Path, type: GGMLType = GGMLType.F32, num_rows: int = ROWS) -> NgramTable:
    return NgramTable(path, OFFSET, num_rows=num_rows, width=WIDTH, type=type)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.bin"


@pytest.fixture
def table(path: Path) -> Iterator[NgramTable]:
    written(path)
    with opened(path) as table:
        yield table


def some_rows(seed: int, *shape: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, ROWS, shape)


@pytest.mark.parametrize("type", KERNEL_TYPES, ids=lambda type: type.name)
def test_rows_of_every_type_are_those_of_the_file(type: GGMLType, path: Path) -> None:
    values = written(path, type)
    rows = some_rows(1, 20, 8)
    with opened(path, type) as table:
        np.testing.assert_array_equal(table.request(rows).result(), values[rows].reshape(20, -1))


def test_table_of_a_model_lies_where_its_tensor_does() -> None:
    with open_gguf(quantised("IQ2_XXS")) as model, NgramTable.open(model, NGRAM_TABLE) as table:
        tensor = model.tensors[NGRAM_TABLE]
        raw = model.data(NGRAM_TABLE).reshape(table.num_rows, -1)
        rows = np.array([[0, table.num_rows - 1], [17, 17]])
        expected = np.asarray(dequantize(raw[rows.ravel()], tensor.type)).reshape(2, -1)
        np.testing.assert_array_equal(table.request(rows).result(), expected)


def test_first_and_last_row_can_be_read(path: Path) -> None:
    values = written(path)
    with opened(path) as table:
        both = table.request(np.array([[ROWS - 1, 0]])).result()
    np.testing.assert_array_equal(both, values[[ROWS - 1, 0]].reshape(1, -1))


def test_requests_are_answered_in_any_order(path: Path) -> None:
    values = written(path)
    wanted = [some_rows(seed, 5, 4) for seed in range(6)]
    with opened(path) as table:
        pending = [table.request(rows) for rows in wanted]
        for index in (3, 0, 5, 1, 4, 2):
            expected = values[wanted[index]].reshape(5, -1)
            np.testing.assert_array_equal(pending[index].result(), expected)


def test_repeated_rows_are_read_once(table: NgramTable) -> None:
    table.request(np.array([[7, 7], [9, 7]])).result()
    use = table.take_use()
    assert (use.rows, use.unique_rows, use.bytes_read) == (4, 2, 2 * row_bytes(GGMLType.F32, WIDTH))
    assert use.wait_seconds > 0
    assert table.take_use().rows == 0


def test_no_rows_give_no_values(table: NgramTable) -> None:
    assert table.request(np.empty((0, 8), np.int64)).result().shape == (0, 8 * WIDTH)


@pytest.mark.parametrize("row", [-1, ROWS])
def test_row_outside_the_table_is_refused(table: NgramTable, row: int) -> None:
    with pytest.raises(StorageError, match=f"a row outside the table of {ROWS}"):
        table.request(np.array([[0, row]]))
    assert table.request(np.array([[0]])).result().shape == (1, WIDTH)


def test_file_that_became_shorter_names_row_and_byte(table: NgramTable, path: Path) -> None:
    os.truncate(path, OFFSET + 100 * WIDTH * 4 + 8)
    pending = table.request(np.array([[3, 100, 200]]))
    at = OFFSET + 100 * WIDTH * 4
    with pytest.raises(StorageError, match=rf"table.bin: row 100 .* byte {at}.*file ends there"):
        pending.result()
    assert table.request(np.array([[99]])).result().shape == (1, WIDTH)


def test_file_that_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"gone: No such file"):
        opened(tmp_path / "gone")


def test_closed_table_refuses_requests_but_answers_those_before(path: Path) -> None:
    values = written(path)
    table = opened(path)
    pending = [table.request(np.array([[row]])) for row in range(5)]
    table.close()
    table.close()
    np.testing.assert_array_equal(pending[4].result()[0], values[4])
    with pytest.raises(StorageError, match="closed"):
        table.request(np.array([[0]]))


def test_unread_requests_are_bounded(table: NgramTable) -> None:
    disk = threading.Event()
    table._reader.submit(disk.wait)  # a read that takes long: what follows it waits
    try:
        pending = [table.request(np.array([[row]])) for row in range(REQUESTS_MAX)]
        with pytest.raises(StorageError, match=f"more than {REQUESTS_MAX} requests"):
            table.request(np.array([[0]]))
    finally:
        disk.set()
    pending[-1].result()
    assert table.request(np.array([[0]])).result().shape == (1, WIDTH)


def test_requests_whose_answer_nobody_takes_do_not_use_up_the_table(table: NgramTable) -> None:
    for _ in range(3):
        for row in range(REQUESTS_MAX - 1):
            table.request(np.array([[row]]))
        table.request(np.array([[0]])).result()


def test_answer_may_be_taken_twice(table: NgramTable) -> None:
    pending = table.request(np.array([[3, 5]]))
    np.testing.assert_array_equal(pending.result(), pending.result())


def test_no_thread_or_file_is_left_behind(path: Path) -> None:
    written(path)
    threads, files = threading.active_count(), psutil.Process().num_fds()
    with opened(path) as table:
        table.request(np.array([[1]])).result()
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
    assert psutil.Process().num_fds() == files


def test_memory_does_not_grow_with_the_table(path: Path) -> None:
    num_rows = 2048 * MIB // (WIDTH * 4)
    path.touch()
    os.truncate(path, OFFSET + num_rows * WIDTH * 4)  # sparse: takes no room on disk
    random = np.random.default_rng(1)
    before = psutil.Process().memory_info().rss
    with opened(path, num_rows=num_rows) as table:
        for _ in range(8):  # other rows every time: each would bring in a page of its own
            assert not table.request(random.integers(0, num_rows, (128, 8))).result().any()
        assert psutil.Process().memory_info().rss - before < 16 * MIB
        assert str(path) not in {each.path for each in psutil.Process().memory_maps()}
