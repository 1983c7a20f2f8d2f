"""Putting sentences together: slots, articles, capitals, and the values the chats are made of.

Every generator of the corpus uses these; nothing here keeps state, all chance comes from the
caller's generator.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

SLOT = re.compile(r"\{(\w+)\}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
Turn = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat: (role, content) pairs in turn, and what it is about."""

    topic: str
    messages: tuple[Turn, ...]


def ask(topic: str, question: str, answer: str) -> Conversation:
    """A chat of one question and its answer."""
    return Conversation(topic, (("user", question), ("assistant", answer)))


def rows(text: str) -> list[str]:
    """The lines of a table."""
    return [line for line in text.strip().splitlines() if line]


def words(text: str) -> list[str]:
    """The items of a comma list."""
    return [word.strip() for word in text.split(",")]


def pick(rng: random.Random, bars: str) -> str:
    """One of the alternatives between bars."""
    return rng.choice(bars.split("|"))


def fill(rng: random.Random, template: str, lists: dict[str, str]) -> str:
    """Replace slots by words of their lists; a capital slot gives a capital word."""

    def choose(match: re.Match[str]) -> str:
        slot = match[1]
        word = rng.choice(words(lists[slot.lower()]))
        return capital(word) if slot[0].isupper() else word

    return SLOT.sub(choose, template)


def with_articles(text: str) -> str:
    """English articles before vowels."""
    return ARTICLE.sub(r"\1n ", text)


def capital(text: str) -> str:
    """The text with its first letter in capitals."""
    return text[0].upper() + text[1:]


def bare(name: str) -> str:
    """A name without its article."""
    first, _, rest = name.partition(" ")
    return rest if first in ("a", "an", "the") else name


def listed(items: list[str]) -> str:
    """`a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
