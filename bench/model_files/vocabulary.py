"""A tokenizer section for a model without training: bytes, a few merges, the control tokens.

Every text can be encoded; ids beyond are unused tokens, so a file of a full-sized vocabulary is
written and loaded in no time. Control tokens lie where the released Qwen vocabularies have them if
the vocabulary is large enough. Called by the families.
"""

from __future__ import annotations

import numpy as np

from engine.gguf.cursor import ValueType
from engine.gguf.writer import Typed
from engine.text.vocabulary import BYTE_CHARACTERS, TokenType
from helpers.text_model import CHATML

MERGES = ("t h", "th e", "Ġ the", "l l", "e r", "i n", "in g", "Ġ a")
SPECIALS_FROM_END = 276  # <|endoftext|> is 248044 of 248320
END_OF_TEXT, IM_START, IM_END, IMAGE = 0, 1, 2, 12  # positions among the specials
SPECIALS = {
    END_OF_TEXT: "<|endoftext|>",
    IM_START: "<|im_start|>",
    IM_END: "<|im_end|>",
    9: "<|vision_start|>",
    10: "<|vision_end|>",
    IMAGE: "<|image_pad|>",
    13: "<|video_pad|>",
    24: "<think>",
    25: "</think>",
}
USER_DEFINED = ("<think>", "</think>")
VOCAB_LEAST = len(BYTE_CHARACTERS) + len(MERGES) + max(SPECIALS) + 1


def special_id(vocab: int, special: int) -> int:
    """The id of the token at that position among the specials."""
    return max(len(BYTE_CHARACTERS) + len(MERGES), vocab - SPECIALS_FROM_END) + special


def tokenizer_metadata(vocab: int, *, pre: str) -> dict[str, object]:
    """All `tokenizer.*` keys. ValueError if the vocabulary is too small."""
    if vocab < VOCAB_LEAST:
        raise ValueError(f"a vocabulary of {vocab}; bytes, merges and specials need {VOCAB_LEAST}")
    tokens = [*BYTE_CHARACTERS, *(merge.replace(" ", "") for merge in MERGES)]
    types = np.full(vocab, TokenType.UNUSED, np.int32)
    types[: len(tokens)] = TokenType.NORMAL
    tokens += [f"[unused {id}]" for id in range(len(tokens), vocab)]
    for special, text in SPECIALS.items():
        id = special_id(vocab, special)
        tokens[id] = text
        types[id] = TokenType.USER_DEFINED if text in USER_DEFINED else TokenType.CONTROL
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": Typed(ValueType.I32, types),
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": special_id(vocab, END_OF_TEXT),
        "tokenizer.ggml.eos_token_id": special_id(vocab, IM_END),
        "tokenizer.ggml.padding_token_id": special_id(vocab, END_OF_TEXT),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHATML,
    }
