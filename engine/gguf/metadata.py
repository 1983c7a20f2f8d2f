"""Typed access to the metadata of a model file, with errors that name file and key.

Used by the readers of shapes and by the text side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from engine.errors import ModelFileError


class Metadata(Mapping[str, object]):
    """The key-value pairs of a file: Python scalars and strings, numpy arrays, lists of strings."""

    def __init__(self, values: Mapping[str, object], path: Path) -> None:
        self._values = dict(values)
        self._path = path

    def __getitem__(self, key: str) -> object:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def integer(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number of at least `least`; without a default the key is required."""
        value = self._present(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, f"is {_kind(value)}, not a whole number")
        if value < least:
            raise self.wrong(key, f"is {value}, less than {least}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        value = self._present(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"is {_kind(value)}, not a number")
        if not np.isfinite(value):
            raise self.wrong(key, "is not finite")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._present(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"is {_kind(value)}, not a string")
        return value

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """A truth value."""
        value = self._present(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {_kind(value)}, not true or false")
        return value

    def integers(self, key: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An array of whole numbers, of any integer type; exact to 64 bits."""
        value = self._present(key, default)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            return tuple(value.tolist())
        if value is default:
            return tuple(default or ())
        raise self.wrong(key, f"is {_kind(value)}, not an array of whole numbers")

    def booleans(self, key: str, default: Sequence[bool] | None = None) -> tuple[bool, ...]:
        """An array of truth values."""
        value = self._present(key, default)
        if isinstance(value, np.ndarray) and value.dtype.kind == "b":
            return tuple(value.tolist())
        if value is default:
            return tuple(default or ())
        raise self.wrong(key, f"is {_kind(value)}, not an array of truth values")

    def wrong(self, key: str, reason: str) -> ModelFileError:
        """The error for a key that cannot be used."""
        return ModelFileError(self._path, f"metadata {key} {reason}")

    def _present(self, key: str, default: object) -> object:
        value = self._values.get(key, default)
        if value is None:
            raise ModelFileError(self._path, f"metadata {key} is missing")
        return value


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray | list):
        return f"an array of {len(value)}"
    return f"{value!r}"[:40]
