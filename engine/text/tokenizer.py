"""Text to token ids and back, from the vocabulary in a GGUF file.

Used by the gateway and the command line. The merging itself is the `tokenizers` library's; control
tokens are found here, so that a caller decides per text whether `<|im_end|>` in it is the token or
just characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum

import tokenizers
from tokenizers import AddedToken, models

from engine.errors import TextError
from engine.text.pretokenizers import IGNORE_MERGES, STEPS, pre_tokenizer

KEY = "tokenizer.ggml."
# Names by which vocabularies mark the end of a turn or text, beside what the metadata says.
END_TOKENS = frozenset(
    "<|im_end|> <|endoftext|> <|eot_id|> <|eom_id|> <|end_of_text|> <|end|> <|end_of_turn|> "
    "<｜end▁of▁sentence｜> <end_of_turn>".split()
)
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenType(IntEnum):
    """Kinds of vocabulary entries. Source: gguf.md, tokenizer.ggml.token_type."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def _byte_characters() -> dict[str, int]:
    """The printable character that stands for each byte. Source: GPT-2's encoder.py."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    pairs = {chr(byte): byte for byte in printable}
    return pairs | {chr(256 + index): byte for index, byte in enumerate(others)}


BYTE_OF = _byte_characters()


class Tokenizer:
    """A vocabulary. Safe to use from several threads."""

    def __init__(
        self,
        tokens: Sequence[str],
        types: Sequence[int],
        encoder: tokenizers.Tokenizer,
        special: Mapping[str, int | None],
        add_bos: bool,
        add_eos: bool,
    ) -> None:
        self._tokens = tokens
        self._types = types
        self._encoder = encoder
        self._add_bos, self._add_eos = add_bos, add_eos
        self.bos_id, self.eos_id = special["bos"], special["eos"]
        control = [id for id, type in enumerate(types) if type == TokenType.CONTROL]
        self.special_ids = frozenset(control)
        ends = {id for id in control if tokens[id] in END_TOKENS}
        named = {special[name] for name in ("eos", "eot", "eom")}
        self.stop_ids = frozenset(ends | {id for id in named if id is not None})
        self._control_ids = {tokens[id]: id for id in control}
        longest_first = sorted(self._control_ids, key=len, reverse=True)
        alternatives = "|".join(re.escape(text) for text in longest_first)
        self._control = re.compile(f"({alternatives})") if alternatives else None

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> Tokenizer:
        """Build from `tokenizer.ggml.*`. Raises TextError for what cannot be used."""
        model = metadata.get(f"{KEY}model")
        if model != "gpt2":
            raise TextError(f"tokenizer model {model!r} is not supported; gpt2 is")
        tokens = _strings(metadata, "tokens")
        types = _types(metadata, len(tokens))
        special = {
            name: _special_id(metadata, f"{name}_token_id", len(tokens))
            for name in ("bos", "eos", "eot", "eom")
        }
        return cls(
            tokens=tokens,
            types=types,
            encoder=_encoder(metadata, tokens, types),
            special=special,
            add_bos=metadata.get(f"{KEY}add_bos_token") is True,
            add_eos=metadata.get(f"{KEY}add_eos_token") is True,
        )

    @property
    def vocab_size(self) -> int:
        return len(self._tokens)

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """Token ids of `text`.

        add_special    put the begin and end tokens around it that the vocabulary asks for
        parse_special  control tokens spelled in `text` become those tokens, not characters
        """
        ids = self._with_control(text) if parse_special else self._plain(text)
        if add_special and self._add_bos and self.bos_id is not None:
            ids.insert(0, self.bos_id)
        if add_special and self._add_eos and self.eos_id is not None:
            ids.append(self.eos_id)
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """Text of `ids`; bytes that are no UTF-8 become U+FFFD."""
        skipped = self.special_ids if skip_special else frozenset()
        raw = b"".join(self.token_bytes(id) for id in ids if id not in skipped)
        return raw.decode("utf-8", errors="replace")

    def token_text(self, id: int) -> str:
        """One token as text; half a character shows as U+FFFD."""
        return self.token_bytes(id).decode("utf-8", errors="replace")

    def token_bytes(self, id: int) -> bytes:
        """Exactly the bytes that one token stands for."""
        text, type = self._tokens[id], self._types[id]
        if type == TokenType.BYTE and (match := BYTE_TOKEN.fullmatch(text)):
            return bytes([int(match[1], 16)])
        if type in (TokenType.CONTROL, TokenType.USER_DEFINED):
            return text.encode()
        try:
            return bytes(BYTE_OF[character] for character in text)
        except KeyError:  # spelled in plain characters
            return text.encode()

    def _with_control(self, text: str) -> list[int]:
        if self._control is None:
            return self._plain(text)
        ids: list[int] = []
        for index, piece in enumerate(self._control.split(text)):
            if index % 2:
                ids.append(self._control_ids[piece])
            elif piece:
                ids.extend(self._plain(piece))
        return ids

    def _plain(self, text: str) -> list[int]:
        # Lone surrogates, which JSON can carry, are no characters and have no bytes.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        return list(self._encoder.encode(clean, add_special_tokens=False).ids)


def _encoder(
    metadata: Mapping[str, object], tokens: Sequence[str], types: Sequence[int]
) -> tokenizers.Tokenizer:
    pre = metadata.get(f"{KEY}pre")
    if pre not in STEPS:
        raise TextError(f"pre-tokenizer {pre!r} is unknown; known: {', '.join(sorted(STEPS))}")
    assert isinstance(pre, str)
    vocabulary = {token: id for id, token in reversed(list(enumerate(tokens)))}  # lowest id wins
    merges = []
    for merge in _strings(metadata, "merges"):
        left, space, right = merge.partition(" ")
        if not (left and space and right):
            raise TextError(f"merge {merge!r} is not two tokens")
        merges.append((left, right))
    try:
        model = models.BPE(
            vocab=vocabulary,
            merges=merges,
            byte_fallback=TokenType.BYTE in types,
            ignore_merges=pre in IGNORE_MERGES,
        )
    except Exception as error:  # noqa: BLE001 - the library raises nothing more specific
        raise TextError(f"vocabulary refused: {error}") from None
    encoder = tokenizers.Tokenizer(model)
    encoder.pre_tokenizer = pre_tokenizer(pre)
    defined = (id for id, type in enumerate(types) if type == TokenType.USER_DEFINED)
    encoder.add_tokens([AddedToken(tokens[id], normalized=False) for id in defined])
    return encoder


def _strings(metadata: Mapping[str, object], name: str) -> list[str]:
    value = metadata.get(KEY + name)
    if not isinstance(value, list) or not value:
        raise TextError(f"metadata {KEY}{name} is missing or not a list of strings")
    try:
        "".join(value).encode()
    except UnicodeEncodeError as error:
        raise TextError(f"metadata {KEY}{name} holds a string that is not UTF-8: {error}") from None
    return value


def _types(metadata: Mapping[str, object], count: int) -> list[int]:
    value = metadata.get(f"{KEY}token_type")
    if value is None:
        return [TokenType.NORMAL] * count
    types = [int(number) for number in value] if hasattr(value, "__iter__") else []
    if len(types) != count:
        raise TextError(f"metadata {KEY}token_type has {len(types)} entries for {count} tokens")
    return types


def _special_id(metadata: Mapping[str, object], name: str, count: int) -> int | None:
    value = metadata.get(KEY + name)
    if value is None:
        return None
    if not isinstance(value, int) or not 0 <= value < count:
        raise TextError(f"metadata {KEY}{name} is {value!r}, outside the {count} tokens")
    return value
