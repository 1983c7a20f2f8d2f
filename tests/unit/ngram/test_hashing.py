"""Rows of the n-gram table: the oracle's, however a sequence is cut."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.gguf.reader import open_gguf
from engine.ngram.hashing import NgramHash
from helpers.qwen4exp_oracle import Oracle
from helpers.qwen4exp_vectors import quantised

Ids = NDArray[np.int64]
END = 380


def hash_of(file: str = "Q2_0") -> NgramHash:
    with open_gguf(quantised(file)) as model:
        sizes = {
            key: tuple(int(n) for n in np.asarray(model.metadata[f"qwen4exp.ple.{name}"]))
            for key, name in (
                ("multipliers", "layer_multipliers"),
                ("offsets", "head_offsets"),
                ("vocab_sizes", "head_vocab_sizes"),
            )
        }
    return NgramHash(**sizes, heads_per_ngram=4, end_token=END)


def ids(seed: int, length: int = 200) -> Ids:
    """Random ids with many end tokens, also side by side."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, 384, length)
    drawn[random.random(length) < 0.2] = END
    return drawn


def unbegun(hash: NgramHash) -> Ids:
    return np.full(hash.window_tokens, hash.end_token)


@pytest.mark.parametrize("seed", range(3))
def test_rows_equal_the_oracle(seed: int) -> None:
    hash, tokens = hash_of(), ids(seed)
    with open_gguf(quantised("Q2_0")) as model:
        expected = Oracle(model).ngram_rows(tokens)
    np.testing.assert_array_equal(hash.rows(unbegun(hash), tokens), expected)


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_rows_do_not_show_how_a_sequence_was_cut(chunk: int) -> None:
    hash, tokens = hash_of(), ids(9)
    window, parts = unbegun(hash), []
    for at in range(0, len(tokens), chunk):
        part = tokens[at : at + chunk]
        parts.append(hash.rows(window, part))
        window = np.concatenate([window, part])[-hash.window_tokens :]
    np.testing.assert_array_equal(np.concatenate(parts), hash.rows(unbegun(hash), tokens))


def test_an_end_token_hides_what_is_before_it_but_not_from_itself() -> None:
    hash = hash_of()
    first, second = np.array([5, 6, END, 7, 8]), np.array([9, 6, END, 7, 8])
    a, b = (hash.rows(unbegun(hash), tokens) for tokens in (first, second))
    assert (a[2] != b[2]).any()  # the end token sees two tokens back
    np.testing.assert_array_equal(a[3:], b[3:])


def test_products_just_below_two_to_the_63_are_exact() -> None:
    most = (2**63 - 1) // 1000
    hash = NgramHash(
        multipliers=(most, most - 1),
        offsets=(10, 0),
        vocab_sizes=(1_000_003, 7),
        heads_per_ngram=2,
        end_token=0,
    )
    (row,) = hash.rows(np.array([999]), np.array([1000]))
    value = (1000 * most) ^ (999 * (most - 1))
    assert row.tolist() == [10 + value % 1_000_003, value % 7]


def test_no_tokens_have_no_rows() -> None:
    hash = hash_of()
    assert hash.rows(unbegun(hash), np.empty(0, np.int64)).shape == (0, 8)
