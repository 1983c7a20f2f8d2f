"""Finds the first of several stop strings in a growing text. Pure; owned by `detokenizer.py`.

Which text comes out depends on the whole text alone, not on how it was cut into pieces: the match
that ends first wins, and of several that end at the same character the longest. Each character
costs constant time on average, however many stop strings there are.
Source: Aho and Corasick, "Efficient string matching", CACM 18(6), 1975.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.errors import PromptError


@dataclass(slots=True)
class _State:
    """The longest suffix of the text that begins a stop string."""

    depth: int  # its length in characters
    matched: str | None = None  # the longest stop string that ends here
    fallback: _State | None = None  # the next shorter such suffix; None: only the empty one
    following: dict[str, _State] = field(default_factory=dict)


class StopMatcher:
    """Holds text back while it may be the beginning of a stop string."""

    def __init__(self, stop: Sequence[str]) -> None:
        """Raises PromptError for an empty stop string, which would match everywhere."""
        if any(not each for each in stop):
            raise PromptError("a stop string is empty")
        self.matched: str | None = None
        self._root = _build(stop)
        self._state = self._root
        self._held = ""  # as long as the state is deep

    def push(self, text: str) -> str:
        """The text that is certain now. After a match there is none any more."""
        if self.matched is not None:
            return ""
        state = self._state
        text = self._held + text
        for end in range(len(self._held), len(text)):
            state = self._next(state, text[end])
            if state.matched is not None:
                self.matched = state.matched
                self._held = ""
                return text[: end + 1 - len(state.matched)]
        self._state = state
        certain = len(text) - state.depth
        self._held = text[certain:]
        return text[:certain]

    def finish(self) -> str:
        """The text held back, for nothing more will come."""
        held, self._held, self._state = self._held, "", self._root
        return held

    def _next(self, state: _State, character: str) -> _State:
        while character not in state.following:
            if state.fallback is None:
                return self._root
            state = state.fallback
        return state.following[character]


def _build(stop: Sequence[str]) -> _State:
    root = _State(depth=0)
    for each in stop:
        state = root
        for character in each:
            state = state.following.setdefault(character, _State(depth=state.depth + 1))
        state.matched = each
    queue = deque([root])
    while queue:  # breadth first: fallbacks are shorter, so they are complete
        state = queue.popleft()
        for character, child in state.following.items():
            child.fallback = _fallback(state, character, root)
            child.matched = child.matched or child.fallback.matched
            queue.append(child)
    return root


def _fallback(parent: _State, character: str, root: _State) -> _State:
    state = parent.fallback
    while state is not None:
        if character in state.following:
            return state.following[character]
        state = state.fallback
    return root
