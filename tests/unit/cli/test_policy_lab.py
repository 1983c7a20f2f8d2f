"""`lamina policy-lab`, and the traces that the other commands record for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.experts.trace import read_trace
from helpers.qwen4exp_vectors import quantised
from helpers.tiny_gguf import write_tiny_model
from services.cli.__main__ import main

PROMPT_TOKENS, NEW_TOKENS = 20, 12


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    path, prompt = folder / "trace", folder / "prompt.json"
    prompt.write_text(json.dumps({"prompts": [list(range(5, 5 + PROMPT_TOKENS))]}))
    flags = ["--tokens-json", str(prompt), "--max-tokens", str(NEW_TOKENS), "--temperature", "0"]
    assert main(["generate", str(quantised("Q2_0")), *flags, "--expert-trace", str(path)]) == 0
    return path


def test_a_generation_is_traced_step_by_step(trace: Path) -> None:
    shape, traced = read_trace(trace)
    steps = list(traced)
    tokens = [(step.tokens, step.decode) for step in steps]
    assert tokens == [(PROMPT_TOKENS, False), *[(1, True)] * (NEW_TOKENS - 1)]
    for step in steps:
        used = step.counts.sum(axis=1)
        assert set(used.tolist()) == {4 * step.tokens}  # 4 experts to a token
        assert step.counts.shape == (shape.layers, 16)


def test_every_policy_is_replayed_at_every_share(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy-lab", str(trace), "--shares", "25,100", "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    names = ["lru", "lfu", "lfru", "heat", "belady"]
    assert [(r["share"], r["policy"]) for r in records] == [
        (share, name) for share in (25, 100) for name in names
    ]
    for share in (25, 100):
        ratio = {r["policy"]: r["hit_ratio"] for r in records if r["share"] == share}
        assert max(ratio.values()) == ratio["belady"]
    assert len({r["hit_ratio"] for r in records if r["share"] == 100}) == 1


def test_the_table_shows_shares_and_policies(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy-lab", str(trace), "--steps", "decode"]) == 0
    head, names, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith(f"{NEW_TOKENS - 1} steps")
    assert names.split() == ["share", "slots", "lru", "lfu", "lfru", "heat", "belady"]
    assert [row.split()[0] for row in rows] == ["4.0", "8.0", "12.5", "25.0", "50.0"]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--shares", "0"], "--shares '0' is not a list of percentages"),
        (["--shares", "x"], "--shares 'x' is not"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    trace: Path, flags: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policy-lab", str(trace), *flags]) == 2
    assert reason in capsys.readouterr().err


def test_a_file_that_is_no_trace_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(b"x")
    assert main(["policy-lab", str(tmp_path / "x")]) == 2
    assert "not a routing trace" in capsys.readouterr().err


def test_a_model_without_experts_has_nothing_to_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dense = write_tiny_model(tmp_path / "dense.gguf", architecture="llama")
    flags = ["--prompt", "x", "--max-tokens", "1", "--expert-trace", str(tmp_path / "t")]
    assert main(["generate", str(dense), *flags]) == 2
    assert "no routed experts to trace" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()
