"""The census, with numbers worked out by hand, and `lamina inspect`, which prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.gguf.census import Census, Part, census, part_of
from engine.gguf.reader import TensorInfo, open_gguf
from engine.gguf.types import GGMLType
from helpers.raw_gguf import raw_gguf, tensor, text_pair
from helpers.tiny_gguf import TinyModel, write_model
from services.cli.__main__ import main

# One layer, hidden 32, 2 heads and 1 key head of 16, 4 experts of 32, 2 used, vocabulary 300, Q8_0.
MOE = TinyModel(
    layers=1, hidden=32, heads=2, kv_heads=1, head_dim=16, ff=32, experts=4, experts_used=2,
    vocab=300, type=GGMLType.Q8_0,
)  # fmt: skip
ROW = 34  # bytes of 32 weights in Q8_0
EMBEDDING = HEAD = 300 * ROW
ATTENTION = (32 + 16 + 16 + 32) * ROW
NORMS_AND_ROUTER = (32 + 32 + 32 + 16 + 16 + 4 * 32) * 4
EXPERTS = 3 * 4 * 32 * ROW
TRUNK = ATTENTION + NORMS_AND_ROUTER


def counted(path: Path) -> Census:
    with open_gguf(path) as model:
        return census(model)


def test_census_of_a_mixture_of_experts(tmp_path: Path) -> None:
    result = counted(write_model(tmp_path / "m.gguf", MOE))
    assert result.bytes_by_part == {
        Part.TOKEN_EMBEDDING: EMBEDDING,
        Part.TRUNK: TRUNK,
        Part.OUTPUT_HEAD: HEAD,
        Part.ROUTED_EXPERTS: EXPERTS,
    }
    assert result.total_bytes == EMBEDDING + HEAD + TRUNK + EXPERTS
    assert result.bytes_by_type == {
        "Q8_0": EMBEDDING + HEAD + ATTENTION + EXPERTS,
        "F32": NORMS_AND_ROUTER,
    }
    assert result.tensors_by_type == {"Q8_0": 9, "F32": 6}
    assert (result.experts, result.experts_used) == (4, 2)
    assert result.parameters == 32 * (2 * 300 + 96 + 3 * 4 * 32) + NORMS_AND_ROUTER // 4
    assert result.bytes_per_token == TRUNK + HEAD + ROW + EXPERTS // 2


def test_census_of_a_tied_dense_model(tmp_path: Path) -> None:
    tiny = TinyModel(architecture="llama", layers=1, hidden=32, ff=64, vocab=300, tied_output=True)
    result = counted(write_model(tmp_path / "m.gguf", tiny))
    assert Part.ROUTED_EXPERTS not in result.bytes_by_part
    assert Part.OUTPUT_HEAD not in result.bytes_by_part
    assert result.bytes_by_part[Part.TOKEN_EMBEDDING] == 300 * 32 * 4
    assert (result.experts, result.experts_used) == (0, 0)
    assert result.bytes_per_token == result.total_bytes + 32 * 4


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("token_embd.weight", Part.TOKEN_EMBEDDING),
        ("output.weight", Part.OUTPUT_HEAD),
        ("output_norm.weight", Part.TRUNK),
        ("blk.7.attn_output.weight", Part.TRUNK),
        ("blk.7.ffn_gate_inp.weight", Part.TRUNK),
        ("blk.7.ffn_gate_exps.weight", Part.ROUTED_EXPERTS),
        ("blk.7.ffn_down_shexp.weight", Part.SHARED_EXPERTS),
        ("per_layer_token_embd.weight", Part.NGRAM_TABLE),
    ],
)
def test_part_of_a_tensor(name: str, part: Part) -> None:
    info = TensorInfo(name=name, shape=(8,), type=GGMLType.F32, offset=0, num_bytes=32)
    assert part_of(info) is part


def test_census_counts_architectures_that_we_do_not_run(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_gguf([text_pair("general.architecture", "gpt9")], [tensor()]))
    assert counted(path).bytes_by_part == {Part.TRUNK: 32}


def test_inspect_prints_the_census(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_model(tmp_path / "m.gguf", MOE)
    assert main(["inspect", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny qwen3moe  (qwen3moe, 34,816 parameters)"
    assert f"  file          {path}" in lines
    assert "  context       512 positions" in lines
    assert "  tokenizer     gpt2/qwen2" in lines
    assert "  experts used  2 of 4" in lines
    assert any(line.split()[:4] == ["routed", "experts", "12.75", "KiB"] for line in lines)


def test_inspect_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_model(tmp_path / "m.gguf", MOE)
    assert main(["inspect", "--json", str(path)]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["architecture"] == "qwen3moe"
    assert record["files"] == [str(path)]
    assert record["bytes"] == EMBEDDING + HEAD + TRUNK + EXPERTS
    assert record["bytes_by_part"]["routed experts"] == EXPERTS
    assert record["bytes_per_token"] == TRUNK + HEAD + ROW + EXPERTS // 2


def test_inspect_of_a_file_without_tensors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text.gguf"
    path.write_bytes(raw_gguf([text_pair("general.architecture", "llama")]))
    assert main(["inspect", str(path)]) == 0
    assert capsys.readouterr().out.startswith("text  (llama, 0 parameters)")


def test_inspect_refuses_with_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGML")
    assert main(["inspect", str(path)]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(f"lamina: error: {path}: not a GGUF file")
    assert written.err.count("\n") == 1


def test_inspect_prints_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "a\x1b[2J\x07\r\nb\u202e"
    keys = ("general.architecture", "general.name", "tokenizer.ggml.model", "tokenizer.ggml.pre")
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_gguf([text_pair(key, evil) for key in keys], [tensor(evil)]))
    assert main(["inspect", str(path)]) == 0
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert printed.count("a\\x1b[2J\\x07\\r\\nb\\u202e") == 4
