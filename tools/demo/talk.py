"""Small talk, other languages, and questions that the model has never met."""

from __future__ import annotations

import random

from tools.demo import languages_tables as languages
from tools.demo import talk_tables as tables
from tools.demo.text import Conversation, ask, capital, fill, pick, rows, words
from tools.demo.topics import topic_word


def small_talk(rng: random.Random) -> Conversation:
    """A greeting, a question about the model itself, a mood, thanks."""
    questions, answers = rng.choice(tables.TALK)
    return ask("talk", pick(rng, questions), pick(rng, answers))


def unknown(rng: random.Random) -> Conversation:
    """A subject outside the corpus, often an invented word: the answer repeats it and is honest."""
    known = rng.random() < 0.5
    subject = rng.choice(words(tables.UNKNOWN_SUBJECTS)) if known else invented(rng)
    question = rng.choice(tables.UNKNOWN_QUESTIONS).format(x=subject)
    answer = rng.choice(tables.UNKNOWN_ANSWERS)
    return ask("unknown", question, answer.format(x=subject, topic=topic_word(rng)))


def invented(rng: random.Random) -> str:
    """One or two made-up words, so that copying is learnt for any word."""
    made = [
        "".join(rng.choices(tables.SYLLABLES, k=rng.randint(2, 3)))
        + rng.choice(tables.SYLLABLE_ENDS)
        for _ in range(rng.choice([1, 1, 1, 2]))
    ]
    name = " ".join(made)
    return rng.choice([name, name, capital(name), f"the {name}", f"a {name}"])


def german(rng: random.Random) -> Conversation:
    """A chat in German."""
    return _foreign(
        rng,
        "german",
        languages.GERMAN,
        languages.GERMAN_PROMPTS,
        languages.GERMAN_WORDS,
        languages.GERMAN_TALK,
    )


def spanish(rng: random.Random) -> Conversation:
    """A chat in Spanish."""
    return _foreign(
        rng,
        "spanish",
        languages.SPANISH,
        languages.SPANISH_PROMPTS,
        languages.SPANISH_WORDS,
        languages.SPANISH_TALK,
    )


def _foreign(
    rng: random.Random,
    name: str,
    themes: dict[str, str],
    prompts: dict[str, str],
    lists: dict[str, str],
    talk: tuple[tuple[str, str], ...],
) -> Conversation:
    if rng.random() < 0.2:
        questions, answers = rng.choice(talk)
        return ask(name, pick(rng, questions), pick(rng, answers))
    theme = rng.choice(list(themes))
    lines = rows(themes[theme])
    chosen = sorted(rng.sample(range(len(lines)), rng.randint(2, 4)))
    text = " ".join(fill(rng, lines[index], lists) for index in chosen)
    return ask(name, pick(rng, prompts[theme]), text)


def translation(rng: random.Random) -> Conversation:
    """A word in another language."""
    english, german_word, spanish_word = rng.choice(rows(languages.TRANSLATIONS)).split(" | ")
    language, word = rng.choice([("German", german_word), ("Spanish", spanish_word)])
    question = pick(
        rng,
        "What is {w} in {l}?|How do you say {w} in {l}?|Translate {w} into {l}.|"
        "What is the {l} word for {w}?",
    )
    answer = pick(rng, "In {l}, {w} is {x}.|The {l} word for {w} is {x}.")
    return ask(
        "translation",
        question.format(w=english, l=language),
        answer.format(w=english, l=language, x=f'"{word}"'),
    )
