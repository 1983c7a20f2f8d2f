"""How text is cut into words before byte-pair merging, one entry per `tokenizer.ggml.pre`.

Owned by `tokenizer.py`. A model learned its merges inside these cuts: with other cuts the same text
becomes other tokens and the answers get worse without any error, so an unknown name is refused.
Patterns are in Oniguruma's syntax, in which these models' own tokenizer.json files state them.
Source: tokenizer.json of Qwen2.5, Qwen3.5, Llama 3, DeepSeek-V3, SmolLM2 and GPT-2; the names and
aliases, `ignore_merges` and the default of `add_bos_token` as llama.cpp's src/llama-vocab.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers

from engine.errors import TextError

_CONTRACTIONS = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"

QWEN2 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
QWEN35 = (  # combining marks belong to words
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")  # digits in threes
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGIT = r"\p{N}"
DEEPSEEK3 = (  # three passes: each cuts the pieces that the last one left
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",  # Chinese, hiragana, katakana
    "|".join(
        (
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+",
            r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
            r" ?[\p{P}\p{S}]+[\r\n]*",
            _SPACES,
        )
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreTokenizer:
    """Cuts of one family of vocabularies, and what else the family wants."""

    patterns: tuple[str, ...]
    ignore_merges: bool = False  # a whole word that is a token is not merged from its bytes
    add_bos: bool = False  # where the file does not say

    def build(self) -> pre_tokenizers.PreTokenizer:
        """The cuts, then the byte-level alphabet."""
        cuts = [pre_tokenizers.Split(Regex(each), "isolated") for each in self.patterns]
        alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*cuts, alphabet])


_QWEN2 = PreTokenizer(patterns=(QWEN2,))
_LLAMA3 = PreTokenizer(patterns=(LLAMA3,), ignore_merges=True, add_bos=True)
_DEEPSEEK3 = PreTokenizer(patterns=DEEPSEEK3)
_SMOLLM = PreTokenizer(patterns=(DIGIT, GPT2))

PRE_TOKENIZERS = {
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "megrez": _QWEN2,
    "qwen35": PreTokenizer(patterns=(QWEN35,)),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "falcon3": _LLAMA3,
    "lfm2": _LLAMA3,
    "glm4": PreTokenizer(patterns=(LLAMA3,), ignore_merges=True),
    "deepseek-v3": _DEEPSEEK3,
    "joyai-llm": _DEEPSEEK3,
    "smollm": _SMOLLM,
    "starcoder": _SMOLLM,
    "gpt-2": PreTokenizer(patterns=(GPT2,)),
}


def pre_tokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer of that name. Raises TextError naming it and the known ones."""
    try:
        return PRE_TOKENIZERS[name]
    except KeyError:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise TextError(
            f"tokenizer.ggml.pre is '{name}', a pre-tokenizer that is not known (known: {known})"
        ) from None
