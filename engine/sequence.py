"""An open sequence as the engine sees it: its pages, its tokens and how to sample.

Owned by `engine.step`; one thread touches it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.api import Sampling, SequenceId, SequenceStart
from engine.rules import OpenSequence


@dataclass(slots=True)
class TokenHistory:
    """Which tokens a sequence holds and how often it put them out; what penalties look at."""

    num_prompt_tokens: int
    seen: set[int] = field(default_factory=set)  # prompt and output
    output_counts: dict[int, int] = field(default_factory=dict)

    def extend(self, tokens: tuple[int, ...], position: int) -> None:
        """Take in tokens that stand at `position` and after it."""
        self.seen.update(tokens)
        for token in tokens[max(0, self.num_prompt_tokens - position) :]:
            self.output_counts[token] = self.output_counts.get(token, 0) + 1

    def seen_ids(self) -> NDArray[np.int64]:
        return np.fromiter(self.seen, np.int64, len(self.seen))


@dataclass(slots=True)
class Sequence:
    """State between steps. `num_tokens` positions have been computed."""

    id: SequenceId
    sampling: Sampling
    history: TokenHistory
    slot: int  # where the state that belongs to no position lies
    pages: list[int] = field(default_factory=list)
    num_tokens: int = 0

    @classmethod
    def opened(cls, start: SequenceStart, slot: int) -> Sequence:
        history = TokenHistory(start.num_prompt_tokens)
        return cls(id=start.sequence, sampling=start.sampling, history=history, slot=slot)

    def seen_by_rules(self) -> OpenSequence:
        """What `engine.rules` looks at."""
        return OpenSequence(
            num_prompt_tokens=self.history.num_prompt_tokens,
            num_tokens=self.num_tokens,
            num_pages=len(self.pages),
        )

    @property
    def output_index(self) -> int:
        """Number of the output token that the next sample gives, from 0."""
        return self.num_tokens - self.history.num_prompt_tokens
