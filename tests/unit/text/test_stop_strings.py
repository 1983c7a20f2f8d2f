"""The matcher against the plain definition: the match that ends first, of those the longest."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import PromptError
from engine.text.stop_strings import StopMatcher

LETTERS = st.text("ab", max_size=24)
STOPS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4)


def first_match(text: str, stop: list[str]) -> tuple[str, str | None]:
    """What should come out, by trying every end."""
    for end in range(1, len(text) + 1):
        matched = [each for each in stop if text[:end].endswith(each)]
        if matched:
            longest = max(matched, key=len)
            return text[: end - len(longest)], longest
    return text, None


def held_back(text: str, stop: list[str]) -> int:
    """Length of the longest suffix that begins a stop string."""
    sizes = range(len(text), 0, -1)
    return next((n for n in sizes if any(each.startswith(text[-n:]) for each in stop)), 0)


@given(LETTERS, STOPS, st.lists(st.integers(0, 24)))
def test_matcher_agrees_with_definition_however_text_is_cut(
    text: str, stop: list[str], cuts: list[int]
) -> None:
    matcher = StopMatcher(stop)
    bounds = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(bounds)]
    out = "".join(map(matcher.push, pieces)) + matcher.finish()
    assert (out, matcher.matched) == first_match(text, stop)


@given(LETTERS, STOPS)
def test_matcher_holds_back_no_more_than_it_must(text: str, stop: list[str]) -> None:
    expected, matched = first_match(text, stop)
    matcher = StopMatcher(stop)
    out = matcher.push(text)
    if matched is None:
        assert out == text[: len(text) - held_back(text, stop)]
    else:
        assert out == expected


def test_matcher_is_silent_after_a_match() -> None:
    matcher = StopMatcher(["b"])
    assert [matcher.push("abc"), matcher.push("d"), matcher.finish()] == ["a", "", ""]


def test_matcher_refuses_an_empty_stop_string() -> None:
    with pytest.raises(PromptError, match="empty"):
        StopMatcher(["a", ""])
