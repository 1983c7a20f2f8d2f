"""Which KV pages are free: reference counts over page ids.

Used by `engine.local`. In a served system the scheduler accounts for pages in its own process.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.errors import CapacityError


class PageAllocator:
    """Pages 0 .. num_pages - 1; a page is free when nobody holds it."""

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self._free = list(range(num_pages - 1, -1, -1))
        self._holders: dict[int, int] = {}

    @property
    def num_free(self) -> int:
        return len(self._free)

    def take(self, count: int) -> tuple[int, ...]:
        """Hold `count` free pages. Raises CapacityError, taking none, when there are fewer."""
        if count > len(self._free):
            raise CapacityError(
                f"{count} KV pages wanted, {len(self._free)} of {self.num_pages} are free; "
                "raise --kv-tokens"
            )
        pages = tuple(self._free.pop() for _ in range(count))
        self._holders.update((page, 1) for page in pages)
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """Hold pages once more."""
        for page in pages:
            self._holders[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """Let go of pages; those that nobody holds any more are free."""
        for page in pages:
            holders = self._holders[page] - 1
            if holders:
                self._holders[page] = holders
            else:
                del self._holders[page]
                self._free.append(page)

    def check_invariants(self) -> None:
        """Every page is either free, once, or held."""
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        assert free.isdisjoint(self._holders), "a free page is held"
        assert len(free) + len(self._holders) == self.num_pages, "a page is lost"
        assert all(count > 0 for count in self._holders.values()), "a page is held by nobody"
