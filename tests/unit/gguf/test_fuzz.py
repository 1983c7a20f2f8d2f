"""Thousands of damaged headers: each is read or refused, in bounded memory, and nothing else.

What opens is also given to everything that reads a header: shapes, census, text side.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelFileError
from engine.gguf.census import census
from engine.gguf.reader import GGUFModel, open_gguf
from engine.gguf.shape import model_shape
from engine.text.load import load_text
from helpers.tiny_gguf import write_tiny_model

CASES = 400  # per kind of damage and seed file
MEMORY_MAX = 64 << 20  # beyond the size of the file
LENGTHS = (0, 1, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
Damage = Callable[[bytearray, int, np.random.Generator], bytearray]


def flip_bytes(raw: bytearray, header: int, random: np.random.Generator) -> bytearray:
    """One to four bytes of the header become others."""
    for at in random.integers(0, header, random.integers(1, 5)):
        raw[at] ^= int(random.integers(1, 256))
    return raw


def cut_off(raw: bytearray, header: int, random: np.random.Generator) -> bytearray:
    """The file ends early."""
    return raw[: random.integers(0, len(raw))]


def change_a_length(raw: bytearray, header: int, random: np.random.Generator) -> bytearray:
    """Eight bytes that may be a length, a count or an offset say something else."""
    at = int(random.integers(8, header - 8))
    struct.pack_into("<Q", raw, at, int(random.choice(np.array(LENGTHS, np.uint64))))
    return raw


def change_a_small_number(raw: bytearray, header: int, random: np.random.Generator) -> bytearray:
    """A small whole number, as lengths, types, sizes and dimensions are, becomes another."""
    small = [
        at for at in range(4, header - 4) if 0 < raw[at] < 100 and not any(raw[at + 1 : at + 4])
    ]
    at = small[random.integers(0, len(small))]
    struct.pack_into("<I", raw, at, int(random.integers(0, 40)))
    return raw


def remove_a_piece(raw: bytearray, header: int, random: np.random.Generator) -> bytearray:
    """Some bytes of the header are gone."""
    at = int(random.integers(4, header))
    del raw[at : at + int(random.integers(1, 64))]
    return raw


DAMAGES: tuple[Damage, ...] = (
    flip_bytes,
    cut_off,
    change_a_length,
    change_a_small_number,
    remove_a_piece,
)


READERS: dict[str, Callable[[Path], object]] = {
    "open": lambda path: open_gguf(path).close(),
    "shape": lambda path: with_model(path, model_shape),
    "census": lambda path: with_model(path, census),
    "text": load_text,
}


def with_model(path: Path, read: Callable[[GGUFModel], object]) -> object:
    with open_gguf(path) as model:
        return read(model)


def refusals(path: Path) -> dict[str, str]:
    """The readers that refused the file and what they said; any other exception is a failure."""
    messages = {}
    for name, read in READERS.items():
        try:
            read(path)
        except ModelFileError as error:
            messages[name] = str(error)
    return messages


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("architecture", ["llama", "qwen3moe"])
def test_damaged_header_is_read_or_refused(
    architecture: str, damage: Damage, tmp_path: Path
) -> None:
    path = write_tiny_model(
        tmp_path / "m.gguf",
        architecture=architecture,
        layers=1,
        hidden=32,
        ff=32,
        experts=2,
        experts_used=1,
    )
    with open_gguf(path) as model:
        header = min(info.offset for info in model.tensors.values())
    whole = path.read_bytes()
    random = np.random.default_rng(DAMAGES.index(damage))
    outcomes: Counter[str] = Counter()
    for _ in range(CASES):
        path.write_bytes(damage(bytearray(whole), header, random))
        messages = refusals(path)
        outcomes.update(messages.keys())
        assert all(text.isprintable() for text in messages.values())
        assert all(text.startswith(str(path)) for text in messages.values())
    assert 0 < outcomes["open"] <= outcomes["shape"] <= CASES, outcomes


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_header_takes_no_more_memory_than_its_file(damage: Damage, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", layers=1)
    refusals(path)  # imports and caches are not the file's doing
    whole, random = path.read_bytes(), np.random.default_rng(7)
    tracemalloc.start()
    try:
        for _ in range(60):
            path.write_bytes(damage(bytearray(whole), 5000, random))
            refusals(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 2 * len(whole) + MEMORY_MAX
