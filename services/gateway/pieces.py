"""Values that travel from a choice being generated to the reply being written; no I/O.

`choice` makes them, `stream` orders them, `responses` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredToken:
    """A generated token with its log probability and the best alternatives."""

    token_bytes: bytes
    logprob: float  # natural logarithm
    top: tuple[tuple[bytes, float], ...]  # (token bytes, logprob), best first
    num_text_bytes: int  # what it adds to the text: none for a special token


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one choice, or of a whole request."""

    prompt_tokens: int
    cached_tokens: int  # of prompt_tokens, those not computed again
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What became known of one choice at once: text, scores, and at its end how it ended."""

    choice: int
    text: str = ""
    scores: tuple[ScoredToken, ...] = ()
    finish: FinishReason | None = None
    usage: Usage | None = None  # of this choice; set with finish
    num_tokens: int = 0  # tokens that arrived, whether or not their text is out
