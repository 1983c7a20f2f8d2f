"""Text to ids and back: the round trip, special tokens, threads."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PromptError
from engine.text.pretokenizers import PRE_TOKENIZERS
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import BYTE_CHARACTERS, TokenType
from helpers.text_metadata import id_of, text_metadata, tiny_tokenizer

TOKENIZER = tiny_tokenizer()
BY_NAME = {name: tiny_tokenizer(pre=name) for name in PRE_TOKENIZERS}
MARKED = st.lists(st.sampled_from(["<|im_end|>", "<think>", "<", "the", " ", "é", "\n"])).map(
    "".join
)


@given(st.text(), st.sampled_from(sorted(BY_NAME)))
def test_tokenizer_round_trips_any_text(text: str, name: str) -> None:
    tokenizer = BY_NAME[name]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(MARKED, st.booleans())
def test_tokenizer_round_trips_text_with_markers(text: str, parse_special: bool) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, parse_special=parse_special)) == text


@given(MARKED)
def test_tokenizer_makes_no_special_token_of_plain_text(text: str) -> None:
    assert TOKENIZER.special_ids.isdisjoint(TOKENIZER.encode(text))


def test_tokenizer_merges_best_pair_first() -> None:
    assert [TOKENIZER.token_text(id) for id in TOKENIZER.encode("the other")] == [
        *("the", "Ġ", "o", "the", "r"),
    ]


def test_tokenizer_parses_special_tokens_when_asked() -> None:
    end = id_of(TOKENIZER, "<|im_end|>")
    ids = TOKENIZER.encode("the<|im_end|>the", parse_special=True)
    assert ids == [id_of(TOKENIZER, "the"), end, id_of(TOKENIZER, "the")]


def test_tokenizer_matches_user_defined_tokens_always_and_the_longest_first() -> None:
    for parse_special in (False, True):
        ids = TOKENIZER.encode("<think><think>ing", parse_special=parse_special)
        assert ids == [id_of(TOKENIZER, "<think>"), id_of(TOKENIZER, "<think>ing")]


def test_tokenizer_skips_special_tokens_when_asked() -> None:
    ids = TOKENIZER.encode("<|im_start|>a<think>b<|im_end|>", parse_special=True)
    assert TOKENIZER.decode(ids, skip_special=True) == "a<think>b"


@pytest.mark.parametrize(("add_bos", "add_eos"), [(False, False), (True, False), (True, True)])
def test_tokenizer_adds_what_the_file_asks_for(add_bos: bool, add_eos: bool) -> None:
    tokenizer = tiny_tokenizer(add_bos_token=add_bos, add_eos_token=add_eos)
    first, last = [tokenizer.bos_id] * add_bos, [tokenizer.eos_id] * add_eos
    assert tokenizer.encode("a", add_special=True) == [*first, *tokenizer.encode("a"), *last]


def test_tokenizer_adds_begin_token_for_llama_unless_told_otherwise() -> None:
    assert tiny_tokenizer(pre="llama-bpe").add_bos
    assert not tiny_tokenizer(pre="llama-bpe", add_bos_token=False).add_bos
    assert not tiny_tokenizer(pre="llama-bpe", bos_token_id=None).add_bos


def test_tokenizer_stops_at_named_and_well_known_ends() -> None:
    ends = {id_of(TOKENIZER, "<|im_end|>"), id_of(TOKENIZER, "<|endoftext|>")}
    assert TOKENIZER.stop_ids == ends
    start = id_of(TOKENIZER, "<|im_start|>")
    assert tiny_tokenizer(eot_token_id=start).stop_ids == ends | {start}


def test_tokenizer_does_not_stop_at_plain_text_that_looks_like_an_end() -> None:
    metadata = text_metadata(eos_token_id=None, token_type=None)
    assert Tokenizer.from_metadata(metadata).stop_ids == frozenset()


def test_tokenizer_gives_bytes_of_each_kind_of_token() -> None:
    assert TOKENIZER.token_bytes(id_of(TOKENIZER, "Ġthe")) == b" the"
    assert TOKENIZER.token_bytes(id_of(TOKENIZER, BYTE_CHARACTERS[0xF0])) == b"\xf0"
    assert TOKENIZER.token_bytes(id_of(TOKENIZER, "<|im_end|>")) == b"<|im_end|>"
    assert TOKENIZER.token_bytes(id_of(TOKENIZER, "[reserved]")) == b""


@pytest.mark.parametrize("id", [-1, TOKENIZER.vocab_size])
def test_tokenizer_refuses_ids_outside_the_vocabulary(id: int) -> None:
    for method in (TOKENIZER.token_bytes, TOKENIZER.token_text):
        with pytest.raises(PromptError, match=f"token {id} is not in the vocabulary"):
            method(id)


def test_tokenizer_replaces_bytes_that_are_no_text() -> None:
    assert TOKENIZER.decode([id_of(TOKENIZER, BYTE_CHARACTERS[0xF0])]) == "\ufffd"


def test_tokenizer_refuses_lone_surrogates() -> None:
    with pytest.raises(PromptError, match="lone surrogate"):
        TOKENIZER.encode("a\ud800b")


def test_tokenizer_falls_back_to_byte_tokens() -> None:
    kept = [character for byte, character in enumerate(BYTE_CHARACTERS) if byte != 0x7E]
    metadata = text_metadata(
        tokens=[*kept, "<0x7E>"],
        token_type=[TokenType.NORMAL] * 255 + [TokenType.BYTE],
        merges=[],
        bos_token_id=None,
        eos_token_id=None,
    )
    tokenizer = Tokenizer.from_metadata(metadata)
    assert tokenizer.encode("a~")[1:] == [255]
    assert tokenizer.decode(tokenizer.encode("a~b")) == "a~b"


def test_tokenizer_refuses_text_its_vocabulary_cannot_express() -> None:
    tokenizer = tiny_tokenizer(
        tokens=["a", "b"], token_type=None, merges=[], bos_token_id=None, eos_token_id=None
    )
    assert tokenizer.encode("abba") == [0, 1, 1, 0]
    with pytest.raises(PromptError, match="no tokens for some of 'abc'"):
        tokenizer.encode("abc")


def test_tokenizer_takes_whole_words_before_merges_where_the_family_does() -> None:
    words = {"tokens": [*BYTE_CHARACTERS, "xyz"], "token_type": None, "merges": []}
    ends = {"bos_token_id": None, "eos_token_id": None}
    assert tiny_tokenizer(pre="llama-bpe", **words, **ends).encode("xyz") == [256]
    assert tiny_tokenizer(pre="qwen2", **words, **ends).encode("xyz") == [ord(c) for c in "xyz"]


def test_tokenizer_encodes_from_many_threads() -> None:
    texts = [f"the {number} <think> other" * 20 for number in range(8)]
    expected = [TOKENIZER.encode(text) for text in texts]
    found: dict[int, list[list[int]]] = {}

    def work(thread: int) -> None:
        found[thread] = [TOKENIZER.encode(text) for text in texts]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [expected] * 4
