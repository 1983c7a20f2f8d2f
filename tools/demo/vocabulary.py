"""The demo model's byte-level BPE, with the `qwen2` split so that its GGUF file can name it.

Source: the split expression of the Qwen2 tokenizer.json.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, trainers
from tokenizers import decoders as decode

from demo import corpus

VOCAB = 2048
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TRAINING_CHATS = 30_000


def load_or_train(path: Path, seed: int) -> Tokenizer:
    """The tokenizer at `path`, or one trained on the corpus of `seed` and saved there."""
    if path.exists():
        return Tokenizer.from_file(str(path))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decode.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    chats = itertools.islice(corpus.conversations(seed), TRAINING_CHATS)
    tokenizer.train_from_iterator((text for chat in chats for _, text in chat.messages), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIALS])
    path.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path))
    return tokenizer
