"""Token ids to text as they come, emitting only what is final.

One per stream, in the gateway. Held back are the bytes of a character that is not complete yet, and
text that may turn out to be the beginning of a stop string.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from engine.text.tokenizer import Tokenizer


class Detokenizer:
    """`push` each token, then `finish`; together they give what `Tokenizer.decode` gives."""

    def __init__(
        self, tokenizer: Tokenizer, *, stop: Sequence[str] = (), skip_special: bool = True
    ) -> None:
        if any(not text for text in stop):
            raise ValueError("an empty stop string")
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._skipped = tokenizer.special_ids if skip_special else frozenset()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stopped: str | None = None  # the stop string that ended the text

    def push(self, token_id: int) -> str:
        """Text that is final now; empty after a stop string was found."""
        if token_id in self._skipped:
            return ""
        return self._emit(self._decoder.decode(self._tokenizer.token_bytes(token_id)))

    def finish(self) -> str:
        """What was held back; half a character becomes U+FFFD."""
        text = self._emit(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return text + held

    def _emit(self, text: str) -> str:
        if self.stopped is not None:
            return ""
        held = self._held + text
        found = [(at, stop) for stop in self._stop if (at := held.find(stop)) >= 0]
        if found:
            at, self.stopped = min(found, key=lambda pair: pair[0])
            self._held = ""
            return held[:at]
        keep = self._possible_stop(held)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def _possible_stop(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = max((len(stop) for stop in self._stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stop):
                return length
        return 0
