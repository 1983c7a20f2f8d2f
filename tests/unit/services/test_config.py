"""Flags and environment, strictly."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from services.common.config import count, flag, one_of, parse, seconds, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A config."""

    name: str = flag("a name")
    room: int = flag("bytes", default=10, kind=size)
    many: int = flag("how many", default=3, kind=count)
    wait_seconds: float = flag("time", default=1.0, kind=seconds)
    mode: str = flag("one of two", default="a", kind=one_of("a", "b"))


def test_flags_win_over_environment_and_defaults() -> None:
    environment = {"LAMINA_MANY": "5", "LAMINA_NAME": "env"}
    config = parse(Example, "x", ["--name", "flag", "--room", "2MiB"], environment)
    assert config == Example(name="flag", room=2 << 20, many=5, wait_seconds=1.0, mode="a")


def test_environment_satisfies_a_required_flag() -> None:
    assert parse(Example, "x", [], {"LAMINA_NAME": "env"}).name == "env"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "--name"),
        (["--name", "x", "--many", "0"], "--many"),
        (["--name", "x", "--many", "few"], "--many"),
        (["--name", "x", "--room", "8 apples"], "--room"),
        (["--name", "x", "--wait-seconds", "-1"], "--wait-seconds"),
        (["--name", "x", "--wait-seconds", "nan"], "--wait-seconds"),
        (["--name", "x", "--mode", "c"], "--mode"),
        (["--name", "x", "--unknown", "1"], "--unknown"),
        (["--nam", "x"], "--nam"),
    ],
)
def test_bad_flag_is_named(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(Example, "x", arguments, {})
    assert caught.value.code == 2
    assert word in capsys.readouterr().err


def test_bad_environment_names_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(Example, "x", ["--name", "x"], {"LAMINA_MANY": "none"})
    assert "--many" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("512", 512), ("1KiB", 1024), ("1.5 GiB", 3 << 29), ("2tib", 2 << 40)],
)
def test_sizes(text: str, expected: int) -> None:
    assert size(text) == expected
