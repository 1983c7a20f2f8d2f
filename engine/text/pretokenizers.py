"""How text is cut into words before byte-pair merging, by the name a GGUF file gives.

Each name has a list of steps, applied one after the other; a step isolates what its expression
matches. The expressions are part of the vocabularies' definition.
Source: tokenizer.json of GPT-2, Llama 3, Qwen2, Qwen3.5, SmolLM and DeepSeek-V3; the names are those
of llama.cpp b11549 (tokenizer.ggml.pre).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tokenizers import Regex, pre_tokenizers

CONTRACTION = r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",)
LLAMA3 = (
    rf"(?:{CONTRACTION})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
)
QWEN2 = (
    rf"(?:{CONTRACTION})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{SPACES}",
)
QWEN35 = (  # marks go with letters
    rf"(?:{CONTRACTION})|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}",
)
DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|" + SPACES,
)
SMOLLM = (r"\p{N}", *GPT2)  # digits one by one

STEPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "gpt-2": GPT2,
        "llama-bpe": LLAMA3,
        "llama3": LLAMA3,
        "llama-v3": LLAMA3,
        "qwen2": QWEN2,
        "qwen35": QWEN35,
        "deepseek-v3": DEEPSEEK_V3,
        "joyai-llm": DEEPSEEK_V3,
        "smollm": SMOLLM,
    }
)
# Vocabularies whose words are looked up whole before merging.
IGNORE_MERGES = frozenset({"llama-bpe", "llama3", "llama-v3"})


def pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    """The steps of a name, then bytes as printable characters. KeyError for an unknown name."""
    splits = [pre_tokenizers.Split(Regex(step), behavior="isolated") for step in STEPS[name]]
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*splits, to_bytes])
