"""`lamina bench decode|prefill`: the keys of a record, and every size is measured."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engine.gguf.reader import open_gguf
from helpers.tiny_gguf import write_tiny_model
from services.cli.__main__ import main

Capture = pytest.CaptureFixture[str]
KEYS = {
    "bench",
    "model",
    "activations",
    "threads",
    "batch",
    "tokens_per_second",
    "bytes_per_token",
    "seconds_min",
    "seconds_median",
    "seconds_max",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf", experts_used=8)


def bench(capsys: Capture, kind: str, model: Path, *flags: str) -> list[dict[str, Any]]:
    assert main(["bench", kind, str(model), "--threads", "2", "--json", *flags]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def bytes_of_a_step(model: Path) -> int:
    """All but the embedding table: every expert of the tiny model is used."""
    with open_gguf(model) as file:
        tensors = file.tensors.values()
        return sum(t.num_bytes for t in tensors if t.name != "token_embd.weight")


def test_decode_measures_every_batch(model: Path, capsys: Capture) -> None:
    found = bench(capsys, "decode", model, "--batch", "1,3", "--context", "8", "--steps", "4")
    assert [record["batch"] for record in found] == [1, 3]
    for record in found:
        assert record.keys() == KEYS
        assert (record["bench"], record["model"], record["threads"]) == ("decode", "tiny.gguf", 2)
        assert record["tokens_per_second"] > 0
        assert record["bytes_per_token"] == bytes_of_a_step(model) // record["batch"]
        assert record["seconds_min"] <= record["seconds_median"] <= record["seconds_max"]


def test_decode_of_a_large_batch_waits_for_all_its_prefills(model: Path, capsys: Capture) -> None:
    """80 prompts of 60 tokens take ten steps, and the first sequence decodes through all."""
    flags = ("--batch", "80", "--context", "60", "--steps", "2")
    (record,) = bench(capsys, "decode", model, *flags)
    assert record["batch"] == 80


def test_prefill_measures_every_length(model: Path, capsys: Capture) -> None:
    found = bench(capsys, "prefill", model, "--tokens", "3,40", "--repeat", "2")
    assert [record["context"] for record in found] == [3, 40]
    for record in found:
        assert record.keys() == KEYS | {"context"}
        assert (record["bench"], record["batch"]) == ("prefill", 1)
        assert record["bytes_per_token"] == bytes_of_a_step(model) // record["context"]


def test_prefill_stays_within_the_context_by_itself(model: Path, capsys: Capture) -> None:
    found = bench(capsys, "prefill", model, "--repeat", "1")
    assert [record["context"] for record in found] == [511]


def test_threads_are_those_that_computed(model: Path, capsys: Capture) -> None:
    assert main(["bench", "prefill", str(model), "--tokens", "3", "--repeat", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["threads"] == os.cpu_count()


def test_text_output_is_one_line_per_record(model: Path, capsys: Capture) -> None:
    arguments = ["--batch", "1,2", "--context", "4", "--steps", "2", "--threads", "2"]
    assert main(["bench", "decode", str(model), *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all("tokens_per_second" in line for line in lines)
