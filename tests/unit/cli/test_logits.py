"""`lamina logits`: the contract with whoever compares Lamina with another implementation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.gguf.reader import open_gguf
from engine.gguf.shape import model_shape
from helpers.engines import DEMO, logits_of
from services.cli.__main__ import main

PROMPTS = [[5, 6, 7, 8], [100], list(range(600, 640))]


def archive(folder: Path, *flags: str, prompts: list[list[int]] = PROMPTS) -> dict[str, np.ndarray]:
    tokens, out = folder / "T.json", folder / "O.npz"
    tokens.write_text(json.dumps({"prompts": prompts}))
    files = ["--tokens", str(tokens), "--out", str(out)]
    assert main(["logits", str(DEMO), *files, "--threads", "2", "--kv-tokens", "256", *flags]) == 0
    with np.load(out) as found:
        return dict(found)


def test_archive_holds_one_array_per_prompt(tmp_path: Path) -> None:
    found = archive(tmp_path)
    with open_gguf(DEMO) as model:
        vocab = model_shape(model).vocab
    assert sorted(found) == ["logits0", "logits1", "logits2"]
    for index, prompt in enumerate(PROMPTS):
        assert found[f"logits{index}"].shape == (len(prompt), vocab)
        assert found[f"logits{index}"].dtype == np.float32


@pytest.mark.parametrize("activations", ["f32", "int8"])
def test_logits_are_the_engine_s_in_the_mode_asked_for(activations: str, tmp_path: Path) -> None:
    found = archive(tmp_path, "--activations", activations)
    for index, prompt in enumerate(PROMPTS):
        expected = logits_of(DEMO, prompt, activations=activations)
        assert np.array_equal(found[f"logits{index}"], expected)


def test_activations_are_exact_by_default(tmp_path: Path) -> None:
    default, rounded = archive(tmp_path), archive(tmp_path, "--activations", "int8")
    exact = archive(tmp_path, "--activations", "f32")
    assert np.array_equal(default["logits0"], exact["logits0"])
    assert not np.array_equal(default["logits0"], rounded["logits0"])


def test_output_keeps_the_name_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "T.json").write_text('{"prompts": [[1]]}')
    files = ["--tokens", str(tmp_path / "T.json"), "--out", str(tmp_path / "plain")]
    assert main(["logits", str(DEMO), *files, "--threads", "2", "--kv-tokens", "64"]) == 0
    assert (tmp_path / "plain").is_file()
    assert not (tmp_path / "plain.npz").exists()
