"""Which rows of an n-gram table a token reads: hashes of the last tokens, by head.

Pure; called by the model before its first layer. Source: ngram hashing of Qwen4ExpPLE in
transformers 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NgramHash:
    """Heads of 2-grams, then of 3-grams, and so on; each has its own range of rows.

    A product of a token id and a multiplier must be below 2**63; the model's shape is checked for
    that.
    """

    multipliers: tuple[int, ...]  # one per token of the longest n-gram, the newest first
    offsets: tuple[int, ...]  # per head: first row
    vocab_sizes: tuple[int, ...]  # per head: number of rows
    heads_per_ngram: int
    end_token: int

    @property
    def window_tokens(self) -> int:
        """How many tokens before the first one matter."""
        return len(self.multipliers) - 1

    def rows(self, window: Ids, tokens: Ids) -> Ids:
        """(tokens, heads): the rows of consecutive tokens of one sequence.

        window  (window_tokens,) the ids before tokens[0], oldest first; `end_token` stands where
                the sequence had not begun
        Looking back from a token, an end token hides itself and everything older; a token that is
        one does not hide what is before it.
        """
        assert len(window) == self.window_tokens, "a window of another length"
        ids, last = np.concatenate([window, tokens]), self.window_tokens
        value = tokens * self.multipliers[0]
        hidden = np.zeros(len(tokens), np.bool_)
        columns = []
        for back in range(1, last + 1):
            before = ids[last - back : last - back + len(tokens)]
            hidden |= before == self.end_token
            value = value ^ (np.where(hidden, self.end_token, before) * self.multipliers[back])
            heads = range((back - 1) * self.heads_per_ngram, back * self.heads_per_ngram)
            columns += [self.offsets[head] + value % self.vocab_sizes[head] for head in heads]
        return np.stack(columns, axis=1)
