"""Flags and environment to a frozen dataclass: one strict parser for every process.

A field of a config dataclass is declared with `flag`. Its value comes from `--its-name`, else from
the variable LAMINA_ITS_NAME, else from its default; a bad value, wherever it came from, and an
unknown flag are errors that name the flag. Called by each process's `__main__` and nothing else.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

PREFIX = "LAMINA_"
UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
T = TypeVar("T")


def flag(help: str, *, default: Any = dataclasses.MISSING, kind: Callable[[str], Any] = str) -> Any:
    """A field of a config: its meaning, its default (none: required) and how text is read."""
    return dataclasses.field(default=default, metadata={"help": help, "kind": kind})


def parse(
    cls: type[T], program: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> T:
    """Read a config. Exits with code 2 and a message that names the flag when it cannot."""
    parser = argparse.ArgumentParser(prog=program, description=cls.__doc__, allow_abbrev=False)
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        name = "--" + field.name.replace("_", "-")
        given = environment.get(PREFIX + field.name.upper())
        required = field.default is dataclasses.MISSING and given is None
        default = field.default if given is None else given  # text defaults pass through `kind`
        shown = "" if field.default is dataclasses.MISSING else f" (default: {field.default})"
        parser.add_argument(
            name,
            type=field.metadata["kind"],
            required=required,
            default=default,
            help=field.metadata["help"] + shown,
        )
    return cls(**vars(parser.parse_args(arguments)))


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def count_or_auto(text: str) -> int:
    """A whole number of at least 0; 0 means that the process decides."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative")
    return value


def port(text: str) -> int:
    """A TCP port; 0 means a free one."""
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"{value} is not a port")
    return value


def seconds(text: str) -> float:
    """A duration of at least 0."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no duration in seconds")
    return value


def size(text: str) -> int:
    """Bytes: 512MiB, 8GiB, or a plain number."""
    match = SIZE.fullmatch(text.strip())
    if match is None or match[2].upper() not in UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 512MiB or 8GiB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def log_level(text: str) -> str:
    """The least severe level that is logged."""
    return one_of("debug", "info", "warning", "error")(text)


def one_of(*choices: str) -> Callable[[str], str]:
    """One of a few words."""

    def choose(text: str) -> str:
        if text not in choices:
            raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(choices)}")
        return text

    return choose
