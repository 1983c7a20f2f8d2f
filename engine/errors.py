"""Errors of the engine: what a caller can act on.

EngineError
├── ModelFileError     the file is truncated, hostile, of an unknown kind, or inconsistent
├── TextError          tokenizer or chat template metadata that cannot be used
├── PromptError        token ids or messages that this model cannot take
├── StepError          a step request that contradicts what the engine knows
├── TraceError         a routing trace that cannot be read or written
├── StorageError       bytes of the model could not be read while it ran
├── NumericsError      the model gave NaN or infinity
├── ShapeError         arguments of an op with the wrong shape, dtype or layout
└── CapacityError      memory that was asked for and cannot be had

A broken promise inside the engine is ours: an assert with a message. Let the process die.
"""

from __future__ import annotations

from pathlib import Path

QUOTED_MAX = 300  # characters kept at either end of a text that comes from a file


class EngineError(Exception):
    """Base of everything a caller of the engine may catch."""


class ModelFileError(EngineError):
    """A model file that is refused: names the file and the reason, on one line.

    The reason may quote the file, and anyone may have written that: it is made printable here.
    """

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path = Path(path)
        self.reason = printable(reason)
        super().__init__(f"{printable(str(path))}: {self.reason}")


def printable(text: str) -> str:
    """`text` fit for one line of a terminal: controls escaped, a very long middle cut out."""
    if len(text) > 2 * QUOTED_MAX:
        text = f"{text[:QUOTED_MAX]} … {text[-QUOTED_MAX:]}"
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


class TraceError(EngineError):
    """A routing trace that cannot be read or written: names the file and the reason."""

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(f"{printable(str(path))}: {printable(reason)}")


class TextError(EngineError):
    """Tokenizer or chat template metadata that cannot be used."""


class PromptError(EngineError):
    """Token ids or messages that this model cannot take."""


class StepError(EngineError):
    """A step request that contradicts what the engine knows."""


class NumericsError(EngineError):
    """The model gave NaN or infinity where a number must be; names the sequence.

    The step has run, so its sequences have advanced: release them, or reset the engine.
    """


class StorageError(EngineError):
    """Bytes of the model could not be read while it ran; names file, place and reason.

    A step that raises it has run in part: release its sequences, or reset the engine.
    """


class ShapeError(EngineError):
    """Arguments of an op with the wrong shape, dtype or layout."""


class CapacityError(EngineError):
    """Memory that was asked for and cannot be had; names the shortfall and the flags."""
