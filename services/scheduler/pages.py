"""Which KV pages of the worker are free. Pure; owned by the core."""

from __future__ import annotations


class Pages:
    """Pages 0 .. num_pages - 1 of one worker, each free or held by one sequence."""

    def __init__(self, num_pages: int, page_tokens: int) -> None:
        self.num_pages = num_pages
        self.page_tokens = page_tokens
        self._free = list(range(num_pages - 1, -1, -1))
        self._held: set[int] = set()

    @property
    def num_free(self) -> int:
        return len(self._free)

    def needed_for(self, num_tokens: int) -> int:
        """Pages that `num_tokens` positions fill, the last one perhaps in part."""
        return -(-num_tokens // self.page_tokens)

    def take(self, count: int) -> tuple[int, ...] | None:
        """Hold `count` pages, or None, holding none, when there are fewer."""
        if count > len(self._free):
            return None
        pages = tuple(self._free.pop() for _ in range(count))
        self._held.update(pages)
        return pages

    def release(self, pages: list[int]) -> None:
        """Give pages back."""
        assert self._held.issuperset(pages), "a page is released that nobody held"
        self._held.difference_update(pages)
        self._free.extend(pages)

    def check_invariants(self, held: list[int]) -> None:
        """`held`: the pages of all sequences, as they see it."""
        assert len(set(held)) == len(held), "a page has two owners"
        assert set(held) == self._held, "holders disagree"
        assert len(set(self._free)) == len(self._free), "a page is free twice"
        assert set(self._free).isdisjoint(self._held), "a free page is held"
        assert len(self._free) + len(self._held) == self.num_pages, "a page is lost"
