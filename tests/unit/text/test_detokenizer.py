"""Streaming text: whole characters, stop strings over several tokens, the same text as `decode`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PromptError
from engine.text.detokenizer import Detokenizer
from helpers.text_metadata import id_of, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
IDS = st.lists(st.integers(0, TOKENIZER.vocab_size - 1))
# Bytes of characters of 2, 3 and 4 bytes, and of forms that UTF-8 forbids: half-characters abound.
BROKEN = st.lists(
    st.sampled_from([0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80, 0xED, 0xC0, 0x41])
)


def streamed(ids: Sequence[int], detokenizer: Detokenizer) -> list[str]:
    return [*map(detokenizer.push, ids), detokenizer.finish()]


@given(IDS, st.booleans())
def test_detokenizer_pieces_join_to_decode(ids: list[int], skip_special: bool) -> None:
    pieces = streamed(ids, Detokenizer(TOKENIZER, skip_special=skip_special))
    assert "".join(pieces) == TOKENIZER.decode(ids, skip_special=skip_special)


@given(BROKEN)
def test_detokenizer_pieces_join_to_decode_of_broken_characters(ids: list[int]) -> None:
    assert "".join(streamed(ids, Detokenizer(TOKENIZER))) == TOKENIZER.decode(ids)


@given(IDS, st.lists(st.text("ab<>the é\n", min_size=1, max_size=4), max_size=3))
def test_detokenizer_gives_out_only_text_before_the_stop_string(
    ids: list[int], stop: list[str]
) -> None:
    detokenizer = Detokenizer(TOKENIZER, stop=stop)
    text, whole = "".join(streamed(ids, detokenizer)), TOKENIZER.decode(ids, skip_special=True)
    if detokenizer.stopped is None:
        assert text == whole
        assert not any(each in whole for each in stop)
    else:
        assert whole.startswith(text + detokenizer.stopped)
        assert not any(each in text for each in stop)


def test_detokenizer_holds_back_half_a_character() -> None:
    ids = TOKENIZER.encode("é😀")
    assert streamed(ids, Detokenizer(TOKENIZER)) == ["", "é", "", "", "", "😀", ""]


def test_detokenizer_replaces_half_a_character_once_it_is_certain() -> None:
    ids = [*TOKENIZER.encode("😀")[:2], *TOKENIZER.encode("ab")]
    assert streamed(ids, Detokenizer(TOKENIZER)) == ["", "", "\ufffda", "b", ""]
    assert streamed(ids[:2], Detokenizer(TOKENIZER)) == ["", "", "\ufffd"]


def test_detokenizer_finds_a_stop_string_over_several_tokens() -> None:
    detokenizer = Detokenizer(TOKENIZER, stop=["\nUser:"])
    pieces = [detokenizer.push(id) for id in TOKENIZER.encode("Yes.\nUs\nUser: the")]
    assert "".join(pieces) == "Yes.\nUs"
    assert detokenizer.stopped == "\nUser:"
    assert detokenizer.finish() == ""


def test_detokenizer_gives_out_what_only_looked_like_a_stop_string() -> None:
    detokenizer = Detokenizer(TOKENIZER, stop=["xyz"])
    assert streamed(TOKENIZER.encode("axy"), detokenizer) == ["a", "", "", "xy"]
    assert detokenizer.stopped is None


def test_detokenizer_bytes_of_tokens_make_up_its_text() -> None:
    ids = TOKENIZER.encode("<|im_start|>thé<|im_end|>", parse_special=True)
    detokenizer = Detokenizer(TOKENIZER)
    assert b"".join(map(detokenizer.text_bytes, ids)).decode() == "thé"
    assert detokenizer.text_bytes(id_of(TOKENIZER, "<|im_end|>")) == b""


def test_detokenizer_refuses_unknown_ids() -> None:
    with pytest.raises(PromptError, match="not in the vocabulary"):
        Detokenizer(TOKENIZER).push(TOKENIZER.vocab_size)


def test_detokenizer_takes_nothing_after_its_end() -> None:
    detokenizer = Detokenizer(TOKENIZER)
    detokenizer.finish()
    with pytest.raises(AssertionError, match="after the end"):
        detokenizer.push(0)
