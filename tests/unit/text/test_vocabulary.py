"""What is refused in a file's tokenizer, and how it is said."""

from __future__ import annotations

import numpy as np
import pytest

from engine.errors import TextError
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import BYTE_CHARACTERS, TokenType, Vocabulary
from helpers.text_metadata import text_metadata

TOKENS = text_metadata()["tokenizer.ggml.tokens"]
TYPES = text_metadata()["tokenizer.ggml.token_type"]
assert isinstance(TOKENS, list)
assert isinstance(TYPES, list)

REFUSED = {
    "no model": ({"model": None}, r"tokenizer\.ggml\.model is missing"),
    "unknown model": ({"model": "rwkv"}, r"model is 'rwkv'.*supported: gpt2"),
    "no pre": ({"pre": None}, r"tokenizer\.ggml\.pre is missing"),
    "unknown pre": ({"pre": "klingon"}, r"pre is 'klingon'.*known: .*llama-bpe.*qwen35"),
    "pre of wrong type": ({"pre": 3}, r"pre is 3, not a string"),
    "no tokens": ({"tokens": None}, r"tokens is missing"),
    "empty tokens": ({"tokens": []}, r"tokens is empty"),
    "tokens of wrong type": ({"tokens": [1, 2]}, r"tokens is not an array of strings"),
    "an empty token": ({"tokens": ["a", ""]}, r"token 1 is empty"),
    "equal tokens": (
        {"tokens": ["a", "b", "a"], "token_type": None},
        r"tokens 0 and 2 are the same",
    ),
    "token that is no text": ({"tokens": ["a", "\udcff"]}, r"token 1 is not valid UTF-8"),
    "too few types": ({"token_type": TYPES[:-1]}, r"token_type has 267 entries for 268 tokens"),
    "unknown type": ({"token_type": [*TYPES[:-1], 9]}, r"token 267 is of unknown type 9"),
    "types of wrong type": ({"token_type": "normal"}, r"token_type is not an array"),
    "byte token without byte": (
        {"token_type": [*TYPES[:-1], TokenType.BYTE]},
        r"token 267 is of type byte, but reads '\[reserved\]'",
    ),
    "no merges": ({"merges": None}, r"merges is missing"),
    "merge of one token": ({"merges": ["the"]}, r"merge 0 is not two tokens"),
    "merge of an absent token": ({"merges": ["t h", "th x"]}, r"merge 1 names 'thx'"),
    "merge of an absent part": ({"merges": ["zz e"]}, r"merge 0 names 'zz', which is not a token"),
    "id too large": ({"eos_token_id": 268}, r"eos_token_id is 268, outside the vocabulary of 268"),
    "id of wrong type": ({"bos_token_id": "1"}, r"bos_token_id is '1', not a token id"),
    "id that is a truth value": ({"bos_token_id": True}, r"bos_token_id is True, not a token id"),
    "flag of wrong type": ({"add_bos_token": 1}, r"add_bos_token is 1, not true or false"),
    "begin token without id": (
        {"add_bos_token": True, "bos_token_id": None},
        r"add_bos_token is set, but there is no bos_token_id",
    ),
    "end token without id": (
        {"add_eos_token": True, "eos_token_id": None},
        r"add_eos_token is set, but there is no eos_token_id",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_tokenizer_refuses(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TextError, match=message) as caught:
        Tokenizer.from_metadata(text_metadata(**changes))
    assert "\n" not in str(caught.value)


def test_vocabulary_refuses_a_merge_that_forges_a_control_token() -> None:
    metadata = text_metadata(
        tokens=["<", "s", "<s"],
        token_type=[1, 1, 3],
        merges=["< s"],
        bos_token_id=None,
        eos_token_id=None,
    )
    with pytest.raises(TextError, match="merge 0 names a control token: '< s'"):
        Vocabulary.from_metadata(metadata)


def test_vocabulary_leaves_out_merges_of_bytes_it_does_not_have() -> None:
    metadata = text_metadata(
        tokens=["[0]", "[1]"],
        token_type=[4, 4],
        merges=["< t"],
        bos_token_id=None,
        eos_token_id=None,
    )
    assert Vocabulary.from_metadata(metadata).merges == []


def test_vocabulary_takes_types_as_numpy() -> None:
    types = np.array(TYPES, np.int32)
    vocabulary = Vocabulary.from_metadata(text_metadata(token_type=types))
    assert vocabulary.types == TYPES


def test_byte_characters_are_the_published_alphabet() -> None:
    assert len(set(BYTE_CHARACTERS)) == 256
    pairs = {0x20: "Ġ", 0x0A: "Ċ", 0x09: "ĉ", 0x00: "Ā", 0xAD: "Ń", 0x41: "A", 0xFF: "ÿ"}
    assert {byte: BYTE_CHARACTERS[byte] for byte in pairs} == pairs
