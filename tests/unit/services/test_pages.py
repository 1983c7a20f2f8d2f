"""The table of free pages."""

from __future__ import annotations

import random

import pytest

from services.scheduler.pages import Pages


def test_too_few_pages_are_none_at_all() -> None:
    pages = Pages(3, 4)
    assert pages.take(4) is None
    assert pages.num_free == 3


@pytest.mark.parametrize(("tokens", "expected"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_needed_for_rounds_up(tokens: int, expected: int) -> None:
    assert Pages(1, 4).needed_for(tokens) == expected


def test_page_that_nobody_holds_cannot_be_released() -> None:
    pages = Pages(3, 4)
    taken = pages.take(1)
    assert taken is not None
    pages.release(list(taken))
    with pytest.raises(AssertionError, match="nobody held"):
        pages.release(list(taken))


def test_pages_are_conserved_whatever_is_done() -> None:
    rng, pages, held = random.Random(3), Pages(20, 4), list[int]()
    for _ in range(500):
        if held and rng.random() < 0.5:
            given_back = [
                held.pop(rng.randrange(len(held))) for _ in range(rng.randint(1, 2)) if held
            ]
            pages.release(given_back)
        else:
            held += pages.take(rng.randint(0, 6)) or ()
        pages.check_invariants(held)


def test_invariants_see_a_page_with_two_owners() -> None:
    pages = Pages(3, 4)
    taken = pages.take(1)
    assert taken is not None
    with pytest.raises(AssertionError, match="two owners"):
        pages.check_invariants([*taken, *taken])
