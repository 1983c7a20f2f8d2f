"""The text side of a file, and a process that has only that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import ModelFileError
from engine.gguf.writer import write_gguf
from engine.text.load import load_text
from helpers.text_metadata import text_metadata

NAMES: dict[str, object] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "llama.context_length": 512,
}


def test_load_text_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    template = {"tokenizer.chat_template": "{{ messages[0].content }}"}
    write_gguf(path, {**NAMES, **text_metadata(), **template}, [])
    side = load_text(path)
    assert (side.model_name, side.architecture, side.context_length) == ("Tiny", "llama", 512)
    assert side.tokenizer.decode(side.tokenizer.encode("the é")) == "the é"
    assert side.chat_template is not None
    assert side.chat_template.render([{"role": "user", "content": "Hi"}]) == "Hi"


def test_load_text_says_when_there_is_no_template(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, {**NAMES, **text_metadata()}, [])
    assert load_text(path).chat_template is None


def test_load_text_names_the_file_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    write_gguf(path, {**NAMES, **text_metadata(pre="klingon")}, [])
    with pytest.raises(ModelFileError, match=r"tiny\.gguf: tokenizer\.ggml\.pre is 'klingon'"):
        load_text(path)


def test_text_side_needs_no_torch() -> None:
    code = (
        "import sys, engine.text.load, engine.text.detokenizer\n"
        "heavy = {'torch', 'grpc', 'transformers', 'huggingface_hub'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    root = Path(__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root, timeout=30)
