"""Tokens to text as they come, one sequence at a time.

Owned by whoever streams one answer. What comes out is final: never half a character, never part of
a text that may still become a stop string. The pieces of any tokens, joined, are `decode` of all.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from engine.text.stop_strings import StopMatcher
from engine.text.tokenizer import Tokenizer

_UTF8 = codecs.getincrementaldecoder("utf-8")


class Detokenizer:
    """The text of one sequence. `stopped` is the stop string that ended it, if one did."""

    def __init__(
        self, tokenizer: Tokenizer, *, stop: Sequence[str] = (), skip_special: bool = True
    ) -> None:
        """Raises PromptError for an empty stop string."""
        self._tokenizer = tokenizer
        self._skipped = tokenizer.special_ids if skip_special else frozenset[int]()
        self._characters = _UTF8(errors="replace")
        self._matcher = StopMatcher(stop)
        self._finished = False

    @property
    def stopped(self) -> str | None:
        """The stop string that was found. Only the text before it is given out."""
        return self._matcher.matched

    def text_bytes(self, id: int) -> bytes:
        """The bytes that a token adds to the text: none for a skipped special token."""
        return b"" if id in self._skipped else self._tokenizer.token_bytes(id)

    def push(self, id: int) -> str:
        """Add a token; the text that is final now. Raises PromptError for an unknown id."""
        assert not self._finished, "a token after the end of the text"
        return self._matcher.push(self._characters.decode(self.text_bytes(id)))

    def finish(self) -> str:
        """The rest of the text; half a character at its end becomes U+FFFD."""
        assert not self._finished, "the text has been finished before"
        self._finished = True
        rest = self._characters.decode(b"", final=True)
        return self._matcher.push(rest) + self._matcher.finish()
