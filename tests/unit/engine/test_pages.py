"""The page allocator against a plain dictionary, and the layout of a step's tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.errors import CapacityError
from engine.kv.pages import PageAllocator
from engine.kv.tables import Span, places

NUM_PAGES = 8


class PagesMachine(RuleBasedStateMachine):
    """`held` has a tuple of pages per hold; a page is free when no hold has it."""

    def __init__(self) -> None:
        super().__init__()
        self.allocator = PageAllocator(NUM_PAGES)
        self.held: list[tuple[int, ...]] = []

    def free(self) -> int:
        return NUM_PAGES - len({page for pages in self.held for page in pages})

    @rule(count=st.integers(0, NUM_PAGES + 1))
    def take(self, count: int) -> None:
        if count > self.free():
            with pytest.raises(CapacityError, match=rf"{count} KV pages wanted, .*--kv-tokens"):
                self.allocator.take(count)
            return
        pages = self.allocator.take(count)
        assert len(set(pages)) == count
        assert {page for held in self.held for page in held}.isdisjoint(pages)
        assert all(0 <= page < NUM_PAGES for page in pages)
        self.held.append(pages)

    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        if self.held:
            pages = data.draw(st.sampled_from(self.held))
            self.allocator.share(pages)
            self.held.append(pages)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.held:
            index = data.draw(st.integers(0, len(self.held) - 1))
            self.allocator.release(self.held.pop(index))

    @invariant()
    def free_pages_agree(self) -> None:
        self.allocator.check_invariants()
        assert self.allocator.num_free == self.free()


PagesMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestPages = PagesMachine.TestCase


def test_pages_are_not_released_more_often_than_held() -> None:
    allocator = PageAllocator(2)
    pages = allocator.take(1)
    allocator.release(pages)
    with pytest.raises(KeyError):
        allocator.release(pages)


def test_places_lay_spans_one_after_another() -> None:
    spans = [
        Span(pages=[7, 2, 5], slot=6, first=3, count=6),
        Span(pages=[1], slot=0, first=0, count=2),
    ]
    laid = places(spans, page_tokens=4)
    assert laid.paged.page_table.tolist() == [[7, 2, 5], [1, 0, 0]]
    assert laid.paged.sequence.tolist() == [0] * 6 + [1] * 2
    assert laid.positions.tolist() == [3, 4, 5, 6, 7, 8, 0, 1]
    assert laid.slots.tolist() == [7 * 4 + 3, 8, 9, 10, 11, 20, 4, 5]
    assert laid.spans.offsets.tolist() == [0, 6, 8]
    assert laid.spans.slots.tolist() == [6, 0]


def test_places_have_the_types_that_the_ops_take() -> None:
    laid = places([Span(pages=(0,), slot=0, first=0, count=1)], page_tokens=1)
    paged = [laid.paged.page_table, laid.paged.sequence, laid.positions]
    paged += [laid.spans.offsets, laid.spans.slots]
    assert {tensor.dtype for tensor in paged} == {torch.int32}
    assert laid.slots.dtype is torch.int64


def test_slots_beyond_32_bits_do_not_wrap() -> None:
    page = 2**31 - 1
    laid = places([Span(pages=[page], slot=0, first=2, count=1)], page_tokens=16)
    assert laid.slots.tolist() == [page * 16 + 2]
