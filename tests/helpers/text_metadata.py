"""Tokenizer metadata for tests of the text side: all bytes, some merges, each kind of token."""

from __future__ import annotations

from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import BYTE_CHARACTERS, TokenType

MERGES = ("t h", "th e", "Ġ the", "l l", "e r")
OTHERS = {
    "<|im_start|>": TokenType.CONTROL,
    "<|im_end|>": TokenType.CONTROL,
    "<|endoftext|>": TokenType.CONTROL,
    "<unk>": TokenType.UNKNOWN,
    "<think>": TokenType.USER_DEFINED,
    "<think>ing": TokenType.USER_DEFINED,
    "[reserved]": TokenType.UNUSED,
}


def text_metadata(**changes: object) -> dict[str, object]:
    """Keys are those after `tokenizer.ggml.`; a value of None leaves the key out."""
    merged = [merge.replace(" ", "") for merge in MERGES]
    tokens = [*BYTE_CHARACTERS, *merged, *OTHERS]
    types = [TokenType.NORMAL] * (256 + len(merged)) + list(OTHERS.values())
    values: dict[str, object] = {
        "model": "gpt2",
        "pre": "qwen2",
        "tokens": tokens,
        "token_type": [int(type) for type in types],
        "merges": list(MERGES),
        "bos_token_id": tokens.index("<|endoftext|>"),
        "eos_token_id": tokens.index("<|im_end|>"),
    } | changes
    return {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}


def tiny_tokenizer(**changes: object) -> Tokenizer:
    """A tokenizer of that metadata."""
    return Tokenizer.from_metadata(text_metadata(**changes))


def id_of(tokenizer: Tokenizer, text: str) -> int:
    """The id of the token that the file spells like this."""
    return next(id for id in range(tokenizer.vocab_size) if tokenizer.token_text(id) == text)
