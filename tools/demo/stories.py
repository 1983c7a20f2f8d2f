"""Stories and poems of the corpus."""

from __future__ import annotations

import random

from tools.demo import stories_tables as tables
from tools.demo.text import Conversation, ask, capital, rows, with_articles, words

STORY_QUESTIONS = (
    "Tell me a story about a {hero}.|Tell me a story about a {hero}|Write a story about a {hero}.|"
    "Write a story about a {adj} {hero}.|Write a short story about a {hero}.|"
    "Tell me a story about a {hero} and a {helper}.|I want to hear a story about a {hero}, please.|"
    "Can you tell me a story about a {hero}?|Tell a story about a {hero} called {name}.|"
    "Write a story about a {hero} and a {helper}.|A story about a {hero}, please.|"
    "Please tell me a story about a {adj} {hero}.|Story about a {hero}|"
    "Write a fairy tale about a {hero}.|Tell me about a {hero} who {problem}.|"
    "Tell me a bedtime story about a {adj} {hero}.|Make up a story about a {hero} {place}."
).split("|")
OPEN_QUESTIONS = (
    "Tell me a story.|Write a story.|Once upon a time|Tell me another story.|A story, please.|"
    "Do you know a story?|Tell me a bedtime story.|Write a fairy tale.|Make up a story."
).split("|")
POEM_QUESTIONS = (
    "Write a poem about {x}.|Can you write a poem about {x}?|A poem about {x}, please.|"
    "Tell me a poem about {x}.|Write a short poem about {x}.|Make a rhyme about {x}."
).split("|")


def story(rng: random.Random) -> Conversation:
    """A hero, a problem, a helper, a deed and an end."""
    helper = rng.choice(words(tables.HELPERS))
    hero = rng.choice([word for word in words(tables.HEROES) if word != helper])
    he, his = rng.choice([("he", "his"), ("she", "her")])
    problem, advice, deed, outcome = rng.choice(rows(tables.PROBLEMS)).split(" | ")
    values = {
        "hero": hero,
        "helper": helper,
        "adj": rng.choice(words(tables.ADJECTIVES)),
        "name": rng.choice(words(tables.NAMES)),
        "place": rng.choice(words(tables.PLACES)),
        "problem": problem.format(he=he, his=his),
        "he": he,
        "his": his,
    }
    asked = rng.choice(STORY_QUESTIONS if rng.random() < 0.8 else OPEN_QUESTIONS)
    parts = [
        _opening(rng, asked),
        f"{rng.choice(words(tables.WHEN))} the {{hero}} {problem}.",
        _advice(rng, advice),
        f"So the {{hero}} {deed}, and {outcome}.",
        rng.choice(rows(tables.ENDINGS)),
    ]
    if rng.random() < 0.4:
        parts.insert(3, rng.choice(rows(tables.MIDDLES)))
    text = " ".join(parts).format(**values)
    return ask("story", with_articles(asked.format(**values)), with_articles(text))


def _opening(rng: random.Random, asked: str) -> str:
    named = " called {name}" if "{name}" in asked or rng.random() < 0.25 else ""
    return rng.choice(
        [
            f"Once upon a time there was a {{adj}} {{hero}}{named} who lived {{place}}.",
            f"There was once a {{adj}} {{hero}}{named} who lived {{place}}.",
            f"A {{adj}} {{hero}}{named} lived {{place}}.",
            f"Long ago a {{adj}} {{hero}}{named} lived {{place}}.",
        ]
    )


def _advice(rng: random.Random, advice: str) -> str:
    said = rng.choice(["said the {helper}", "said an old {helper}", "a {helper} said"])
    if said.startswith("a "):
        return f'{capital(said)}: "{advice}."'
    return f'"{advice}," {said}.'


def poem(rng: random.Random) -> Conversation:
    """Two couplets about a theme, or about any theme when none is named."""
    theme = rng.choice(list(tables.COUPLETS))
    lines = [
        line for pair in rng.sample(rows(tables.COUPLETS[theme]), 2) for line in pair.split(" / ")
    ]
    question = rng.choice(POEM_QUESTIONS).format(x=theme)
    if rng.random() < 0.3:
        question = rng.choice(["Write a poem.", "A poem, please.", "Do you know a poem?"])
    return ask("poem", question, "\n".join(lines))
