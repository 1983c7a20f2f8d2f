"""Facts, sums, reasons, instructions, lists and code: short questions with one answer."""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.demo import facts_tables as tables
from tools.demo.text import Conversation, ask, capital, listed, pick, rows, with_articles, words

NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def number(n: int) -> str:
    """The English name of a number below a hundred."""
    if n <= 20:
        return NUMBERS[n]
    return TENS[n // 10] + (f"-{NUMBERS[n % 10]}" if n % 10 else "")


def arithmetic(rng: random.Random) -> Conversation:
    """A sum, difference or product, in digits or in words."""
    a, b = rng.randint(0, 20), rng.randint(0, 20)
    sign, word, result = "+", "plus", a + b
    kind = rng.random()
    if kind < 0.3:
        a, b = max(a, b), min(a, b)
        sign, word, result = "-", "minus", a - b
    elif kind < 0.45:
        a, b = a % 10, b % 10
        sign, word, result = "*", "times", a * b
    if rng.random() < 0.6:
        question = pick(
            rng, "What is {} {} {}?|{} {} {}|How much is {} {} {}?|{} {} {} = ?|Calculate {} {} {}."
        )
        return ask("arithmetic", question.format(a, sign, b), f"{a} {sign} {b} = {result}.")
    question = pick(rng, "What is {} {} {}?|How much is {} {} {}?|{} {} {}")
    asked = question.format(number(a), word, number(b))
    return ask("arithmetic", asked, f"{capital(number(a))} {word} {number(b)} is {number(result)}.")


def counting(rng: random.Random) -> Conversation:
    """Counting up or down, in digits or in words."""
    top = rng.randint(3, 20)
    numbers = list(range(1, top + 1))
    if rng.random() < 0.3:
        numbers.reverse()
        question = pick(rng, "Count down from {}.|Count backwards from {}.|Count from {} to 1.")
    else:
        question = pick(rng, "Count to {}.|Can you count to {}?|Count from 1 to {}.")
    if rng.random() < 0.4:
        return ask(
            "arithmetic",
            question.format(number(top)),
            capital(", ".join(map(number, numbers))) + ".",
        )
    return ask("arithmetic", question.format(top), ", ".join(map(str, numbers)) + ".")


def _capital_city(rng: random.Random) -> tuple[str, str]:
    country, city = rng.choice(words(tables.CAPITALS)).rsplit(" ", 1)
    if rng.random() < 0.15:
        return f"Where is {city}?", f"{city} is the capital of {country}."
    question = pick(
        rng,
        "What is the capital of {}?|Which city is the capital of {}?|Tell me the capital of {}.|"
        "Name the capital of {}.|What's the capital of {}?|Capital of {}",
    )
    return question.format(country), f"The capital of {country} is {city}."


def _colour(rng: random.Random) -> tuple[str, str]:
    thing, colour = rng.choice(words(tables.COLOURS)).rsplit(" ", 1)
    question = pick(rng, "What colour is {}?|Which colour does {} have?|What color is {}?")
    return question.format(thing), f"{capital(thing)} is {colour}."


def _opposite(rng: random.Random) -> tuple[str, str]:
    one, other = rng.sample(rng.choice(words(tables.OPPOSITES)).split(" "), 2)
    question = pick(rng, "What is the opposite of {}?|Tell me the opposite of {}.|Opposite of {}")
    return question.format(one), f"The opposite of {one} is {other}."


def _animal(rng: random.Random) -> tuple[str, str]:
    kind = rng.randrange(4)
    if kind == 0:
        animal, count = rng.choice(words(tables.LEGS)).rsplit(" ", 1)
        return f"How many legs does {animal} have?", f"{capital(animal)} has {count} legs."
    if kind == 1:
        animal, sound = rng.choice(words(tables.SOUNDS)).rsplit(" ", 1)
        asked = pick(rng, f"What sound does {animal} make?|What does {animal} say?")
        return asked, f"{capital(animal)} {sound}."
    if kind == 2:
        article, animal, young = rng.choice(words(tables.YOUNG)).split(" ", 2)
        return (
            pick(
                rng,
                f"What is a young {animal} called?|What is the young of {article} {animal}?",
            ),
            f"A young {animal} is called {young}.",
        )
    one, place = rng.choice(words(tables.HOMES)).split(" ", 2)[1:]
    preposition, _, where = place.partition(" ")
    return f"Where does a {one} live?", f"A {one} lives {preposition} {where}."


def _order(rng: random.Random) -> tuple[str, str]:
    names = rng.choice([tables.DAYS, tables.MONTHS]).split()
    index = rng.randrange(len(names))
    if rng.random() < 0.5:
        return (
            f"What comes after {names[index]}?",
            f"After {names[index]} comes {names[(index + 1) % len(names)]}.",
        )
    return f"What comes before {names[index]}?", f"Before {names[index]} comes {names[index - 1]}."


def _planet(rng: random.Random) -> tuple[str, str]:
    planets = tables.PLANETS.split()
    index = rng.randrange(len(planets))
    ordinals = "first second third fourth fifth sixth seventh eighth".split()
    return rng.choice(
        [
            ("How many planets are there?", f"There are eight planets: {listed(planets)}."),
            ("Which planet is closest to the sun?", "Mercury is closest to the sun."),
            ("Which planet is the largest?", "Jupiter is the largest planet."),
            (
                f"Which is the {ordinals[index]} planet from the sun?",
                f"The {ordinals[index]} planet from the sun is {planets[index]}.",
            ),
        ]
    )


def _calendar(rng: random.Random) -> tuple[str, str]:
    return rng.choice(
        [
            ("How many days are in a week?", "A week has seven days."),
            ("How many months are in a year?", "A year has twelve months."),
            (
                "Name the days of the week.",
                f"The days of the week are {listed(tables.DAYS.split())}.",
            ),
            ("Name the months.", f"The months are {listed(tables.MONTHS.split())}."),
            ("How many hours are in a day?", "A day has twenty-four hours."),
            ("How many minutes are in an hour?", "An hour has sixty minutes."),
        ]
    )


FACTS: tuple[Callable[[random.Random], tuple[str, str]], ...] = (
    _capital_city,
    _capital_city,
    _capital_city,
    _colour,
    _opposite,
    _animal,
    _order,
    _planet,
    _calendar,
)


def fact(rng: random.Random) -> Conversation:
    """One fact from a small table."""
    return ask("facts", *map(with_articles, rng.choice(FACTS)(rng)))


def reason(rng: random.Random) -> Conversation:
    """Why something is as it is."""
    asked, answer = rng.choice(rows(tables.REASONS)).split(" | ")
    question = pick(rng, "Why {}?|why {}?|Can you tell me why {}?|Do you know why {}?")
    return ask("reasons", question.format(asked), answer)


def steps(rng: random.Random) -> Conversation:
    """How to do something, as sentences or as a numbered list."""
    task, text = rng.choice(rows(tables.STEPS)).split(" | ")
    lines = [line.strip() for line in text.split(";")]
    question = pick(
        rng,
        "How do I {}?|How can I {}?|How to {}?|Tell me how to {}.|Explain how to {}.|"
        "I want to {}. What should I do?|Can you help me to {}?|How do you {}?",
    ).format(task)
    if rng.random() < 0.5:
        answer = "\n".join(f"{index}. {line}" for index, line in enumerate(lines, 1))
    else:
        answer = " ".join(lines)
    return ask("steps", question, answer)


def listing(rng: random.Random) -> Conversation:
    """A few members of a class."""
    kind, members = rng.choice(rows(tables.LISTS)).split(" | ")
    count = rng.randint(2, 5)
    chosen = rng.sample(words(members), count)
    question = pick(
        rng, "Name {n} {k}.|Give me {n} {k}.|List {n} {k}.|Can you name {n} {k}?|Tell me {n} {k}."
    ).format(n=rng.choice([str(count), number(count)]), k=kind)
    if rng.random() < 0.5:
        return ask("lists", question, capital(listed(chosen)) + ".")
    return ask("lists", question, "\n".join(f"{i}. {capital(x)}" for i, x in enumerate(chosen, 1)))


def code(rng: random.Random) -> Conversation:
    """A Python function for a purpose."""
    purpose, name, parameters, body = rng.choice(rows(tables.CODE)).split(" | ")
    body = body.replace("\\n", "\n")
    question = pick(
        rng,
        "Write a Python function to {}.|Write a function that can {}.|How do I {} in Python?|"
        "Show me Python code to {}.|Python code to {}|Write code to {}.|Write a program to {}.|"
        "Can you write a Python function to {}?",
    ).format(purpose)
    lead = pick(rng, "Here is the function:|You can write it like this:|Try this:")
    text = f"{lead}\n\n```python\ndef {name}({parameters}):\n    {body}\n```"
    if rng.random() < 0.3:
        text += f"\n\nCall it `{name}` with {listed(words(parameters))}."
    return ask("code", question, text)
