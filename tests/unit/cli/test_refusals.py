"""Bad input of `generate`, `logits` and `bench`: one line, exit code 2, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.engines import DEMO
from services.cli.__main__ import main

Capture = pytest.CaptureFixture[str]
SMALL = ("--threads", "2", "--kv-tokens", "64")
GENERATE = ("generate", str(DEMO), *SMALL)
DECODE = ("bench", "decode", str(DEMO), *SMALL)
PREFILL = ("bench", "prefill", str(DEMO), *SMALL)

BAD_TOKENS: dict[str, tuple[str | bytes, str]] = {
    "malformed": ("{", "not JSON"),
    "empty file": ("", "not JSON"),
    "no text": (b"\xff\xfe\x00", "not JSON"),
    "too deep": ("[" * 200_000, "not JSON"),
    "endless number": ('{"prompts": [[' + "9" * 5000 + "]]}", "not JSON"),
    "a list": ("[[1]]", "expected"),
    "no prompts": ('{"prompts": []}', "expected"),
    "other key": ('{"tokens": [[1]]}', "expected"),
    "null": ('{"prompts": null}', "expected"),
    "text": ('{"prompts": ["abc"]}', "prompt 0 is not a list of token ids"),
    "number": ('{"prompts": [[1], 2]}', "prompt 1 is not a list of token ids"),
    "fraction": ('{"prompts": [[1.0]]}', "prompt 0 is not a list of token ids"),
    "truth": ('{"prompts": [[true]]}', "prompt 0 is not a list of token ids"),
    "empty prompt": ('{"prompts": [[1], []]}', "the prompt is empty"),
    "beyond the vocabulary": (
        '{"prompts": [[1, 999999]]}',
        "token 999999 is outside the vocabulary",
    ),
    "negative": ('{"prompts": [[-1]]}', "token -1 is outside the vocabulary"),
    "huge": ('{"prompts": [[1' + "0" * 40 + "]]}", "is outside the vocabulary"),
    "too long": ('{"prompts": [[' + ",".join("1" * 65) + "]]}", "exceed the context of 64"),
}
BAD_FLAGS = {
    "no tokens to generate": ((*GENERATE, "--prompt", "a", "--max-tokens", "0"), "--max-tokens 0"),
    "cold": ((*GENERATE, "--prompt", "a", "--temperature", "-1"), "--temperature -1.0"),
    "no temperature": ((*GENERATE, "--prompt", "a", "--temperature", "nan"), "--temperature nan"),
    "top-k": ((*GENERATE, "--prompt", "a", "--top-k", "-1"), "--top-k -1"),
    "top-p": ((*GENERATE, "--prompt", "a", "--top-p", "0"), "--top-p 0.0"),
    "min-p": ((*GENERATE, "--prompt", "a", "--min-p", "1.5"), "--min-p 1.5"),
    "seed": ((*GENERATE, "--prompt", "a", "--seed", str(1 << 64)), "--seed"),
    "empty text": ((*GENERATE, "--prompt", ""), "the prompt is empty"),
    "long answer": ((*GENERATE, "--prompt", "a", "--max-tokens", "64"), "exceed the context of 64"),
    "too many threads": (
        ("generate", str(DEMO), "--prompt", "a", "--threads", "5000"),
        "5000 threads, 1 to 1024 are possible",
    ),
    "absurd cache": (
        ("generate", str(DEMO), "--prompt", "a", "--kv-tokens", "1" + "0" * 15),
        "a smaller --kv-tokens would free it",
    ),
    "batch of nothing": ((*DECODE, "--batch", "0"), "--batch '0' is not a list"),
    "batch of words": ((*DECODE, "--batch", "one"), "--batch 'one' is not a list"),
    "batch beyond a step": ((*DECODE, "--batch", "512"), "a step has 512 tokens at most"),
    "batch beyond the cache": (
        (*DECODE, "--batch", "2", "--context", "20", "--steps", "10"),
        "raise --kv-tokens",
    ),
    "context beyond the cache": (
        (*DECODE, "--batch", "1", "--context", "64"),
        "exceed the context",
    ),
    "prefill beyond the cache": ((*PREFILL, "--tokens", "64"), "exceed the context of 64"),
    "prefill of nothing": ((*PREFILL, "--tokens", "1,,2"), "--tokens '1,,2' is not a list"),
}
BAD_USAGE = (
    ("--context", "0"),
    ("--steps", "0"),
    ("--steps", "-3"),
    ("--threads", "-1"),
    ("--kv-tokens", "x"),
    ("--activations", "f64"),
)


def refusal(capsys: Capture, *arguments: str) -> str:
    """The one line that a refused command prints."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("lamina: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("command", ["logits", "generate"])
@pytest.mark.parametrize("name", BAD_TOKENS)
def test_bad_tokens_are_refused(name: str, command: str, tmp_path: Path, capsys: Capture) -> None:
    content, message = BAD_TOKENS[name]
    file = tmp_path / "T.json"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    out = tmp_path / "O.npz"
    flags = {
        "logits": ("--tokens", str(file), "--out", str(out)),
        "generate": ("--tokens-json", str(file), "--max-tokens", "1", "--json"),
    }
    assert message in refusal(capsys, command, str(DEMO), *SMALL, *flags[command])
    assert not out.exists()


@pytest.mark.parametrize("name", BAD_FLAGS)
def test_bad_flags_are_refused(name: str, capsys: Capture) -> None:
    arguments, message = BAD_FLAGS[name]
    assert message in refusal(capsys, *arguments)


@pytest.mark.parametrize("flags", BAD_USAGE, ids=" ".join)
def test_values_that_no_flag_takes_are_a_usage_error(
    flags: tuple[str, str], capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*DECODE, *flags])
    assert ended.value.code == 2
    assert f"argument {flags[0]}" in capsys.readouterr().err


def test_prefill_without_a_run_is_a_usage_error(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main([*PREFILL, "--repeat", "0"])
    assert "argument --repeat" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["no such file", "a folder"])
def test_tokens_that_cannot_be_read_are_refused(
    missing: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path if missing == "a folder" else tmp_path / "T.json"
    files = ("--tokens", str(path), "--out", str(tmp_path / "O.npz"))
    assert str(path) in refusal(capsys, "logits", str(DEMO), *SMALL, *files)


@pytest.mark.parametrize("place", ["folder/that/is/not/there/O.npz", "."])
def test_output_that_cannot_be_written_is_refused(
    place: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "T.json").write_text('{"prompts": [[1]]}')
    files = ("--tokens", str(tmp_path / "T.json"), "--out", str(tmp_path / place))
    assert str(tmp_path / place) in refusal(capsys, "logits", str(DEMO), *SMALL, *files)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_output_on_a_full_disk_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "T.json").write_text('{"prompts": [[1, 2, 3]]}')
    files = ("--tokens", str(tmp_path / "T.json"), "--out", "/dev/full")
    assert "/dev/full" in refusal(capsys, "logits", str(DEMO), *SMALL, *files)


@pytest.mark.parametrize("kind", ["no such file", "a folder", "an empty file", "a text"])
@pytest.mark.parametrize("command", ["generate", "logits", "bench"])
def test_model_that_is_none_is_refused(
    command: str, kind: str, tmp_path: Path, capsys: Capture
) -> None:
    model = tmp_path / "m.gguf"
    if kind == "a folder":
        model.mkdir()
    elif kind != "no such file":
        model.write_text("" if kind == "an empty file" else "this is no model at all" * 100)
    (tmp_path / "T.json").write_text('{"prompts": [[1]]}')
    arguments = {
        "generate": ("generate", str(model), "--prompt", "a"),
        "logits": (
            *("logits", str(model), "--tokens", str(tmp_path / "T.json")),
            *("--out", str(tmp_path / "O.npz")),
        ),
        "bench": ("bench", "decode", str(model)),
    }
    assert str(model) in refusal(capsys, *arguments[command])


def test_chat_without_a_text_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "T.json").write_text('{"prompts": [[1]]}')
    flags = ("--tokens-json", str(tmp_path / "T.json"), "--chat")
    assert "--chat" in refusal(capsys, *GENERATE, *flags)


def test_refusal_of_a_process_is_one_line_too() -> None:
    command = [sys.executable, "-m", "services.cli", "generate", "no-model.gguf", "--prompt", "a"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "lamina: error: no-model.gguf: No such file or directory\n"
