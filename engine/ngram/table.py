"""A table of embedding rows that stays on disk: a step's rows are read in one batch, ahead of use.

The table is not mapped and not read as a whole. `request` hands a batch to a thread of the table's
own and returns; that thread tells the system of all rows first, so that the disk has the whole
batch in flight, and then reads them in the order of the file. `PendingRows.result` waits and
expands what came. Used by the n-gram embedding; hashing is another module's business.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelFileError, StorageError
from engine.gguf.reader import GGUFModel
from engine.gguf.types import GGMLType, row_bytes
from engine.kernels import _native, ops
from engine.kernels.ops import QuantMatrix
from engine.kernels.support import check_type

REQUESTS_MAX = 16  # being read or waiting to be, at once
END_OF_FILE = -1


@dataclass(slots=True)
class NgramUse:
    """What requests since the last `take_use` cost."""

    rows: int = 0
    unique_rows: int = 0
    bytes_read: int = 0
    wait_seconds: float = 0.0  # the model stood still for so long


class NgramTable:
    """`num_rows` rows of `width` values at `offset` of a file. Close it, or use it in a `with`.

    One thread may use it. Raises ModelFileError if the file cannot be opened.
    """

    def __init__(
        self, path: Path, offset: int, *, num_rows: int, width: int, type: GGMLType
    ) -> None:
        self.path = path
        self.num_rows = num_rows
        self.width = width
        self.type = type
        self.use = NgramUse()
        self._offset = offset
        self._row_bytes = row_bytes(type, width)
        self._unread: list[Future[NDArray[np.uint8]]] = []
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ModelFileError(path, error.strerror or str(error)) from None
        if hasattr(os, "posix_fadvise"):  # no read-ahead: neighbours of a row are strangers
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="ngram-rows")

    @classmethod
    def open(cls, model: GGUFModel, tensor_name: str) -> NgramTable:
        """The table that is a tensor of a model file, whichever file of the set holds it."""
        tensor = model.tensors[tensor_name]
        path, offset = model.location(tensor_name)
        check_type(path, tensor_name, tensor.type)
        width, num_rows = tensor.shape
        return cls(path, offset, num_rows=num_rows, width=width, type=tensor.type)

    def request(self, rows: NDArray[np.int64]) -> PendingRows:
        """Begin to read rows (tokens, heads). Raises StorageError for one beyond the table."""
        if self._fd < 0:
            raise StorageError(f"{self.path}: the n-gram table is closed")
        if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < self.num_rows:
            raise StorageError(f"{self.path}: a row outside the table of {self.num_rows}")
        # By what is read, not by what is answered: a step that fails never asks for its answer.
        self._unread = [future for future in self._unread if not future.done()]
        if len(self._unread) >= REQUESTS_MAX:
            raise StorageError(f"{self.path}: more than {REQUESTS_MAX} requests are unread")
        unique, inverse = np.unique(rows, return_inverse=True)  # ascending, as they lie on disk
        self.use.rows += rows.size
        self.use.unique_rows += unique.size
        self.use.bytes_read += unique.size * self._row_bytes
        future = self._reader.submit(self._read, unique)
        self._unread.append(future)
        return PendingRows(self, future, inverse.reshape(rows.shape))

    def take_use(self) -> NgramUse:
        """What was used since the last call; starts counting anew."""
        use, self.use = self.use, NgramUse()
        return use

    def close(self) -> None:
        """End the thread and close the file; requests under way are read to their end."""
        if self._fd >= 0:
            self._reader.shutdown(wait=True)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self, unique: NDArray[np.int64]) -> NDArray[np.uint8]:
        """(rows, row_bytes), in the reader's thread; the native call lets others run."""
        offsets = self._offset + unique * self._row_bytes
        out = np.empty((unique.size, self._row_bytes), np.uint8)
        failed, number = _native.read_rows(
            *(self._fd, offsets.ctypes.data, unique.size, self._row_bytes, out.ctypes.data)
        )
        if failed >= 0:
            reason = "the file ends there" if number == END_OF_FILE else os.strerror(number)
            raise StorageError(
                f"{self.path}: row {unique[failed]} of the n-gram table, at byte "
                f"{offsets[failed]}, cannot be read: {reason}"
            )
        return out

    def _answered(self, future: Future[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """(unique rows, width): wait for a batch and expand it."""
        began = time.perf_counter()
        try:
            raw = future.result()
        finally:
            self.use.wait_seconds += time.perf_counter() - began
        if not raw.size:
            return np.empty((0, self.width), np.float32)
        matrix = QuantMatrix(
            data=raw.reshape(-1), type=self.type, rows=raw.shape[0], cols=self.width
        )
        values: NDArray[np.float32] = ops.dequantize(matrix).numpy()
        return values


class PendingRows:
    """A batch on its way."""

    def __init__(
        self,
        table: NgramTable,
        future: Future[NDArray[np.uint8]],
        inverse: NDArray[np.int64],
    ) -> None:
        self._table = table
        self._future = future
        self._inverse = inverse

    def result(self) -> NDArray[np.float32]:
        """(tokens, heads * width). Raises StorageError if the file could not be read."""
        values = self._table._answered(self._future)
        tokens, heads = self._inverse.shape
        return values[self._inverse].reshape(tokens, heads * self._table.width)
