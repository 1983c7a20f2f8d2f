"""Text to token ids and back, from the tokenizer that a model file carries.

Used by the gateway and by the command line; safe to share between threads. Byte-level BPE itself
is the `tokenizers` package; what is ours is reading the file, and cutting the text at special and
user-defined tokens before BPE sees it:

- user-defined tokens (<think>, runs of spaces) are matched wherever they occur in the text;
- control and unknown tokens (<|im_end|>) are matched only with `parse_special`. Without it their
  text is ordinary text: no merge can make a control token.

`tokenizer.ggml.add_space_prefix` concerns SentencePiece vocabularies; byte-level BPE has no such
prefix, and the key is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE

from engine.errors import PromptError, TextError
from engine.text.pretokenizers import PreTokenizer, pre_tokenizer
from engine.text.vocabulary import (
    BYTE_CHARACTERS,
    SPECIAL_TYPES,
    TokenType,
    Vocabulary,
    byte_value,
)

MODELS = ("gpt2",)


class Tokenizer:
    """The vocabulary of one model. Ids are those of the model's embedding table."""

    def __init__(self, vocabulary: Vocabulary, words: PreTokenizer) -> None:
        self._vocabulary = vocabulary
        self.vocab_size = len(vocabulary.tokens)
        self.bos_id = vocabulary.bos_id
        self.eos_id = vocabulary.eos_id
        self.stop_ids = vocabulary.stop_ids  # any of them ends a generation
        self.special_ids = vocabulary.special_ids
        self.add_bos = _resolved_add_bos(vocabulary, words)
        self.add_eos = vocabulary.add_eos
        if self.add_eos and self.eos_id is None:
            raise TextError("tokenizer.ggml.add_eos_token is set, but there is no eos_token_id")
        mergeable = _mergeable_ids(vocabulary)
        self._lacks_bytes = any(character not in mergeable for character in BYTE_CHARACTERS)
        self._backend = _backend(vocabulary, mergeable, words)
        added = _texts_of(vocabulary, {TokenType.USER_DEFINED})
        self._cut_plain = _pattern(added)
        self._cut_special = _pattern(added + _texts_of(vocabulary, SPECIAL_TYPES))

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, object]) -> Tokenizer:
        """Build from the `tokenizer.ggml.*` keys of a model file. Raises TextError."""
        model = _name(metadata, "tokenizer.ggml.model")
        if model not in MODELS:
            raise TextError(
                f"tokenizer.ggml.model is '{model}', a kind of tokenizer that is not supported"
                f" (supported: {', '.join(MODELS)})"
            )
        words = pre_tokenizer(_name(metadata, "tokenizer.ggml.pre"))
        return cls(Vocabulary.from_metadata(metadata), words)

    def encode(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """Token ids of `text`.

        `add_special` puts the model's begin and end tokens around it where the file asks for them;
        `parse_special` makes control tokens of their text. Raises PromptError for text that the
        vocabulary cannot express.
        """
        _check_unicode(text)
        ids: list[int] = []
        if add_special and self.add_bos and self.bos_id is not None:
            ids.append(self.bos_id)
        for piece in self._pieces(text, self._cut_special if parse_special else self._cut_plain):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += self._encode_words(piece)
        if add_special and self.add_eos and self.eos_id is not None:
            ids.append(self.eos_id)
        return ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = False) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD. Raises PromptError."""
        skipped = self.special_ids if skip_special else frozenset()
        return b"".join(self.token_bytes(id) for id in ids if id not in skipped).decode(
            errors="replace"
        )

    def token_bytes(self, id: int) -> bytes:
        """The bytes of one token, which may be part of a character. Raises PromptError."""
        self._check(id)
        return self._vocabulary.token_bytes(id)

    def token_text(self, id: int) -> str:
        """One token as the file spells it, a leading space as Ġ. Raises PromptError."""
        self._check(id)
        return self._vocabulary.tokens[id]

    def _check(self, id: int) -> None:
        if not 0 <= id < self.vocab_size:
            raise PromptError(f"token {id} is not in the vocabulary of {self.vocab_size}")

    def _pieces(self, text: str, cut: re.Pattern[str] | None) -> Iterator[str | int]:
        """Text between added tokens, and the ids of those, in order."""
        start = 0
        if cut is not None:
            for match in cut.finditer(text):
                if match.start() > start:
                    yield text[start : match.start()]
                yield self._vocabulary.ids[match[0]]
                start = match.end()
        if start < len(text):
            yield text[start:]

    def _encode_words(self, text: str) -> list[int]:
        # The batch call gives the interpreter lock back while it works; the plain one does not.
        (encoding,) = self._backend.encode_batch_fast([text], add_special_tokens=False)
        ids: list[int] = encoding.ids
        if self._lacks_bytes:
            self._check_complete(text, ids)
        return ids

    def _check_complete(self, text: str, ids: list[int]) -> None:
        """BPE leaves out bytes that the vocabulary lacks; say so instead."""
        if b"".join(map(self._vocabulary.token_bytes, ids)) != text.encode():
            raise PromptError(f"this model's vocabulary has no tokens for some of {text[:40]!r}")


def _check_unicode(text: str) -> None:
    """JSON can spell half a surrogate pair, which is no character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptError(f"the text has a lone surrogate at character {error.start}") from None


def _name(metadata: Mapping[str, object], key: str) -> str:
    value = metadata.get(key)
    if value is None:
        raise TextError(f"{key} is missing")
    if not isinstance(value, str):
        raise TextError(f"{key} is {value!r}, not a string")
    return value


def _resolved_add_bos(vocabulary: Vocabulary, words: PreTokenizer) -> bool:
    if vocabulary.add_bos is None:
        return words.add_bos and vocabulary.bos_id is not None
    if vocabulary.add_bos and vocabulary.bos_id is None:
        raise TextError("tokenizer.ggml.add_bos_token is set, but there is no bos_token_id")
    return vocabulary.add_bos


def _mergeable_ids(vocabulary: Vocabulary) -> dict[str, int]:
    """Tokens that BPE may make, by text; byte tokens stand in for bytes without a character."""
    ids: dict[str, int] = {}
    byte_ids: dict[str, int] = {}
    for id, (token, type) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
        if type is TokenType.BYTE:
            byte_ids[BYTE_CHARACTERS[byte_value(token, id)]] = id
        elif type not in SPECIAL_TYPES:
            ids[token] = id
    return byte_ids | ids


def _backend(vocabulary: Vocabulary, mergeable: dict[str, int], words: PreTokenizer) -> Backend:
    model = BPE(vocab=mergeable, merges=list(vocabulary.merges), ignore_merges=words.ignore_merges)
    backend = Backend(model)
    backend.pre_tokenizer = words.build()
    return backend


def _texts_of(vocabulary: Vocabulary, types: Iterable[TokenType]) -> list[str]:
    wanted = frozenset(types)
    pairs = zip(vocabulary.tokens, vocabulary.types, strict=True)
    return [token for token, type in pairs if type in wanted]


def _pattern(texts: list[str]) -> re.Pattern[str] | None:
    """Matches any of `texts`, the longest first; None if there are none."""
    if not texts:
        return None
    return re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))
