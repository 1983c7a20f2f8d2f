"""The vocabulary of a model file, checked: tokens, their types, the special ids, the merges.

Built once by `tokenizer.py` from GGUF metadata, which anyone may have written. Whatever cannot be
right is refused here with one line, so that the code behind it may trust what it gets.
Source: gguf.md of the ggml repository, section "Tokenizer"; the byte alphabet is GPT-2's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from engine.errors import TextError

PREFIX = "tokenizer.ggml."
# End-of-generation tokens by text: chat models emit some that their metadata does not name.
# Source: llama.cpp src/llama-vocab.cpp, the list of end-of-generation tokens.
END_TEXTS = frozenset(
    {
        *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>"),
        *("<|endoftext|>", "<|eom_id|>", "<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>"),
        *("</s>", "<eos>", "<end_of_utterance>", "<｜end▁of▁sentence｜>"),
    }
)


class TokenType(IntEnum):
    """`tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


SPECIAL_TYPES = frozenset({TokenType.UNKNOWN, TokenType.CONTROL})


def _byte_characters() -> list[str]:
    """The character that stands for each byte: printable ones for themselves, the rest shifted."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(shifted)) for byte in range(256)]


BYTE_CHARACTERS = _byte_characters()
_BYTE_OF = {character: byte for byte, character in enumerate(BYTE_CHARACTERS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Tokens by id and what they are for."""

    tokens: Sequence[str]
    types: Sequence[TokenType]
    ids: Mapping[str, int]
    merges: Sequence[tuple[str, str]]  # best first
    bos_id: int | None
    eos_id: int | None
    stop_ids: frozenset[int]
    special_ids: frozenset[int]  # control and unknown tokens
    add_bos: bool | None  # None: the file does not say
    add_eos: bool

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> Vocabulary:
        """Read and check the `tokenizer.ggml.*` keys. Raises TextError."""
        fields = _Fields(metadata)
        tokens = fields.tokens()
        types = fields.types(len(tokens))
        ids = _unique_ids(tokens)
        named = {key: fields.token_id(f"{key}_token_id", len(tokens)) for key in _NAMED_IDS}
        special = frozenset(index for index, type in enumerate(types) if type in SPECIAL_TYPES)
        ends = {ids[text] for text in END_TEXTS if text in ids} & special
        ends |= {id for id in (named["eos"], named["eot"], named["eom"]) if id is not None}
        return cls(
            tokens=tokens,
            types=types,
            ids=ids,
            merges=_checked_merges(fields.strings("merges"), ids, special),
            bos_id=named["bos"],
            eos_id=named["eos"],
            stop_ids=frozenset(ends),
            special_ids=special,
            add_bos=fields.boolean("add_bos_token"),
            add_eos=fields.boolean("add_eos_token") or False,
        )

    def token_bytes(self, token: int) -> bytes:
        """What a token adds to the text."""
        text = self.tokens[token]
        match self.types[token]:
            case TokenType.NORMAL:
                try:
                    return bytes([_BYTE_OF[character] for character in text])
                except KeyError:  # not in the byte alphabet: never merged, stands for its own text
                    return text.encode()
            case TokenType.BYTE:
                return bytes([byte_value(text, token)])
            case TokenType.UNUSED:
                return b""
            case _:
                return text.encode()


_NAMED_IDS = ("bos", "eos", "eot", "eom", "unknown", "padding")


def byte_value(text: str, token: int) -> int:
    """The byte that a byte token such as <0x0A> stands for."""
    match = re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", text)
    if match is None:
        raise TextError(f"token {token} is of type byte, but reads {text!r}, not like '<0x0A>'")
    return int(match[1], 16)


class _Fields:
    """Typed access to the tokenizer's keys."""

    def __init__(self, metadata: Mapping[str, object]) -> None:
        self._metadata = metadata

    def strings(self, key: str) -> Sequence[str]:
        value = self._metadata.get(PREFIX + key)
        if value is None:
            raise TextError(f"{PREFIX}{key} is missing")
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise TextError(f"{PREFIX}{key} is not an array of strings")
        return value

    def boolean(self, key: str) -> bool | None:
        value = self._metadata.get(PREFIX + key)
        if value is not None and not isinstance(value, bool):
            raise TextError(f"{PREFIX}{key} is {value!r}, not true or false")
        return value

    def token_id(self, key: str, num_tokens: int) -> int | None:
        value = self._metadata.get(PREFIX + key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise TextError(f"{PREFIX}{key} is {value!r}, not a token id")
        if not 0 <= value < num_tokens:
            raise TextError(f"{PREFIX}{key} is {value}, outside the vocabulary of {num_tokens}")
        return value

    def tokens(self) -> Sequence[str]:
        tokens = self.strings("tokens")
        if not tokens:
            raise TextError(f"{PREFIX}tokens is empty")
        for index, token in enumerate(tokens):
            if not token:
                raise TextError(f"token {index} is empty")
        _check_unicode(tokens, "token")
        return tokens

    def types(self, num_tokens: int) -> list[TokenType]:
        """Files may leave the types out; then every token is an ordinary one."""
        value = self._metadata.get(f"{PREFIX}token_type")
        if value is None:
            return [TokenType.NORMAL] * num_tokens
        types = np.asarray(value)
        if types.ndim != 1 or types.dtype.kind not in "iu":
            raise TextError(f"{PREFIX}token_type is not an array of whole numbers")
        if len(types) != num_tokens:
            raise TextError(f"{PREFIX}token_type has {len(types)} entries for {num_tokens} tokens")
        unknown = np.flatnonzero((types < min(TokenType)) | (types > max(TokenType)))
        if unknown.size:
            token = int(unknown[0])
            raise TextError(f"token {token} is of unknown type {types[token]}")
        by_number = {int(type): type for type in TokenType}
        return [by_number[number] for number in types.tolist()]


def _check_unicode(texts: Sequence[str], what: str) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        index = next(i for i, text in enumerate(texts) if not _is_unicode(text))
        raise TextError(f"{what} {index} is not valid UTF-8: {texts[index]!r}") from None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _unique_ids(tokens: Sequence[str]) -> dict[str, int]:
    ids = {token: index for index, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        first: dict[str, int] = {}
        for index, token in enumerate(tokens):
            if token in first:
                raise TextError(f"tokens {first[token]} and {index} are the same: {token!r}")
            first[token] = index
    return ids


def _checked_merges(
    merges: Sequence[str], ids: Mapping[str, int], special: frozenset[int]
) -> list[tuple[str, str]]:
    """The pairs whose bytes the vocabulary has; a pair of other bytes could never meet.

    A merge that makes a special token would let plain text forge it, so it is refused.
    """
    alphabet = {character for character in BYTE_CHARACTERS if character in ids}
    pairs: list[tuple[str, str]] = []
    for rank, merge in enumerate(merges):
        left, _, right = merge.partition(" ")
        if not left or not right:
            raise TextError(f"merge {rank} is not two tokens with a space between: {merge!r}")
        made = ids.get(left + right)
        if made is None or left not in ids or right not in ids:
            if alphabet.isdisjoint(left + right):
                continue
            absent = next(part for part in (left, right, left + right) if part not in ids)
            raise TextError(f"merge {rank} names {absent!r}, which is not a token")
        if not special.isdisjoint((made, ids[left], ids[right])):
            raise TextError(f"merge {rank} names a control token: {merge!r}")
        pairs.append((left, right))
    return pairs
