"""Which sequences the scheduler has open on this worker and how many pages each holds.

Follows the steps that were run; for metrics and for the drain. The engine has its own table.
"""

from __future__ import annotations

from engine.api import SequenceId, StepRequest


class OpenSequences:
    """Pages by open sequence."""

    def __init__(self) -> None:
        self._pages: dict[SequenceId, int] = {}

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def num_pages(self) -> int:
        """Pages held by all of them."""
        return sum(self._pages.values())

    def follow(self, request: StepRequest) -> None:
        """Take in a step that the engine has run."""
        for released in request.releases:
            del self._pages[released]
        for start in request.starts:
            self._pages[start.sequence] = 0
        for entry in request.entries:
            self._pages[entry.sequence] += len(entry.new_pages)

    def clear(self) -> None:
        """The stream has ended; the engine was reset."""
        self._pages.clear()
