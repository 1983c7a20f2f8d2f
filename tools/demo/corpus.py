"""The demo corpus: an endless, deterministic stream of chats about a few topics.

`conversation(rng)` returns a topic and a list of messages. Everything is put together from
`topics_tables.py`; the same seed gives the same text. Called by `train_demo.py` for training and
held-out text, and for measuring how routing depends on the topic.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from demo import topics_tables as tables

SLOT = re.compile(r"\{(\w+)\}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
).split()
TENS = "_ _ twenty thirty forty".split()

ASK = (
    "Tell me about {x}.|What can you say about {x}?|What do you know about {x}?|Describe {x}.|"
    "Tell me something about {x}.|tell me about {x}|What is {x} like?|Please tell me about {x}.|"
    "I would like to know more about {x}.|Can you explain {x}?|Write about {x}.|What about {x}?|"
    "Say something about {x}, please.|Write a few sentences about {x}."
).split("|")
ASK_TOPIC = (
    "Tell me about {x}.|Let us talk about {x}.|I like {x}. Tell me more.|Say something about {x}.|"
    "Write a paragraph about {x}.|What is interesting about {x}?"
).split("|")
TOPIC_NAMES = {
    "sea": "the ocean|boats|the sea and its animals|the beach",
    "space": "space|the stars|the night sky|planets",
    "garden": "gardens|flowers|plants|gardening|bees and flowers",
    "cooking": "cooking|food|a recipe|the kitchen|dinner",
    "weather": "the weather|rain and wind|storms|winter",
    "music": "music|songs|instruments|a concert",
    "village": "the village|village life|the people of the village|the market",
    "animals": "animals|wild animals|the animals of the forest|pets",
}
MORE = "Tell me more.|And what else?|More, please.|Go on.|Is there more?|What else?".split("|")
THANKS = "Thank you.|Thanks!|Thank you very much.|Great, thanks.".split("|")
WELCOME = (
    "You are welcome.|You are welcome. Ask me anything you like.|My pleasure.|I am glad to help."
).split("|")
GREETINGS = "Hello|Hi|Hello!|Hi there|Good morning|Good evening|Hey|Hello, how are you?".split("|")
GREETING_ANSWERS = (
    "Hello! How can I help you?|Hello! What would you like to talk about?|"
    "Good to meet you. Ask me about the sea, the stars or a garden.|"
    "Hello! I can tell you a story, if you like."
).split("|")
WHO = (
    "Who are you?|What are you?|What is your name?|who are you|Are you a person?|"
    "Introduce yourself."
).split("|")
WHO_ANSWERS = (
    "I am the Lamina demo model, a very small language model. I like to talk about the sea, the "
    "stars, gardens and music.|I am a small mixture of experts, trained to show how Lamina works.|"
    "My name is Lamina demo. I am a tiny language model, and I know only a few things."
).split("|")
CAN = "What can you do?|What do you know?|How can you help me?|Help".split("|")
CAN_ANSWERS = (
    "I can tell stories, describe animals and places, add small numbers and write a little Python.|"
    "I can talk about the sea, space, gardens, cooking, weather, music, animals and a village. "
    "I can also add small numbers."
).split("|")
SYSTEMS = (
    "You are a helpful assistant.|You are a friendly assistant who answers in a few sentences.|"
    "Answer briefly.|You are the Lamina demo model."
).split("|")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat: (role, content) pairs in turn, and what it is about."""

    topic: str
    messages: tuple[tuple[str, str], ...]


def rows(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def fill(rng: random.Random, template: str, lists: dict[str, str]) -> str:
    """Replace slots by words of their lists; a capital slot gives a capital word."""

    def choose(match: re.Match[str]) -> str:
        slot = match[1]
        word = rng.choice(words(lists[slot.lower()]))
        return word[0].upper() + word[1:] if slot[0].isupper() else word

    return SLOT.sub(choose, template)


def with_articles(text: str) -> str:
    """English articles before vowels."""
    return ARTICLE.sub(r"\1n ", text)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def entities(topic: str) -> list[tuple[str, list[str]]]:
    pairs = (line.split(" | ") for line in rows(tables.ENTITIES[topic]))
    return [(name, [fact.strip() for fact in facts.split(";")]) for name, facts in pairs]


def describe(rng: random.Random, name: str, facts: list[str], count: int) -> str:
    """A few sentences about one entity."""
    chosen = rng.sample(facts, min(count, len(facts)))
    bare = name.split(" ", 1)[-1] if name.split(" ")[0] in ("a", "an", "the") else name
    sentences = []
    for index, fact in enumerate(chosen):
        if index == 0:
            sentences.append(f"{capital(name)} {fact}.")
        else:
            subject = rng.choice(["It", "It", "It also", capital(name), f"Every {bare}"])
            general = name.split(" ")[0] in ("a", "an") and "cannot" not in fact
            if subject.startswith("Every") and not general:
                subject = "It"
            if name in ("the baker", "the blacksmith"):
                subject = "He"
            if name == "the doctor":
                subject = "She"
            sentences.append(f"{subject} {fact}.")
    return " ".join(sentences)


def scenes(rng: random.Random, topic: str, count: int) -> str:
    templates = rng.sample(rows(tables.SCENES[topic]), count)
    lists = {**tables.COMMON, **tables.WORDS[topic]}
    return " ".join(with_articles(fill(rng, template, lists)) for template in templates)


def about(rng: random.Random) -> Conversation:
    """Question and answer about an entity or a topic, perhaps with a follow-up."""
    topic = rng.choice(list(tables.ENTITIES))
    name, facts = rng.choice(entities(topic))
    if rng.random() < 0.6:
        question = rng.choice(ASK).format(x=name)
        answer = describe(rng, name, facts, rng.randint(2, 4))
        if rng.random() < 0.5:
            answer += " " + scenes(rng, topic, 1)
    else:
        question = rng.choice(ASK_TOPIC).format(x=rng.choice(TOPIC_NAMES[topic].split("|")))
        answer = scenes(rng, topic, rng.randint(2, 4))
    messages = [("user", question), ("assistant", answer)]
    if rng.random() < 0.35:
        other, more = rng.choice(entities(topic))
        follow = describe(rng, other, more, 2) + " " + scenes(rng, topic, 1)
        messages += [("user", rng.choice(MORE)), ("assistant", follow)]
    return Conversation(topic, tuple(messages))


def story(rng: random.Random) -> Conversation:
    hero, helper = rng.choice(words(tables.STORY_HEROES)), rng.choice(words(tables.STORY_HELPERS))
    adjective, place = (
        rng.choice(words(tables.STORY_ADJECTIVES)),
        rng.choice(words(tables.STORY_PLACES)),
    )
    problem, deed, end = rng.choice(rows(tables.STORY_PROBLEMS)).format(helper=helper).split(" | ")
    opening = rng.choice(
        [
            f"Once upon a time there was a {adjective} {hero} who lived {place}.",
            f"There was once a {adjective} {hero} {place}.",
            f"A {adjective} {hero} lived {place}.",
        ]
    )
    when = rng.choice(["One day", "One evening", "One cold morning", "In the spring"])
    ending = rng.choice(rows(tables.STORY_ENDINGS)).format(hero=hero)
    text = f"{opening} {when} the {hero} {problem}. So the {hero} {deed}, and {end}. {ending}"
    text = with_articles(text)
    question = rng.choice(
        [
            f"Tell me a story about a {hero}.",
            f"Tell me a story about a {hero}",
            f"Write a story about a {adjective} {hero}.",
            f"Write a short story about a {hero}.",
            f"tell me a story about a {hero} and a {helper}",
            "Tell me a story.",
            "Write a story.",
            "Once upon a time",
            f"I want to hear a story about a {hero}, please.",
        ]
    )
    return Conversation("story", (("user", with_articles(question)), ("assistant", text)))


def number(n: int) -> str:
    if n <= 20:
        return NUMBERS[n]
    return TENS[n // 10] + (f"-{NUMBERS[n % 10]}" if n % 10 else "")


def arithmetic(rng: random.Random) -> Conversation:
    a, b = rng.randint(0, 20), rng.randint(0, 20)
    if rng.random() < 0.65:
        sign, word, result = "+", "plus", a + b
    else:
        a, b = max(a, b), min(a, b)
        sign, word, result = "-", "minus", a - b
    if rng.random() < 0.5:
        question = rng.choice(["What is {} {} {}?", "{} {} {}", "How much is {} {} {}?"])
        return Conversation(
            "arithmetic",
            (("user", question.format(a, sign, b)), ("assistant", f"{a} {sign} {b} = {result}.")),
        )
    question = rng.choice(["What is {} {} {}?", "How much is {} {} {}?"])
    text = f"{capital(number(a))} {word} {number(b)} is {number(result)}."
    asked = question.format(number(a), word, number(b))
    return Conversation("arithmetic", (("user", asked), ("assistant", text)))


def fact(rng: random.Random) -> Conversation:
    kind = rng.choice(["capital", "capital", "colour", "opposite"])
    if kind == "capital":
        country, city = rng.choice(words(tables.CAPITALS)).rsplit(" ", 1)
        asks = [
            f"What is the capital of {country}?",
            f"what is the capital of {country}",
            f"Which city is the capital of {country}?",
            f"Tell me the capital of {country}.",
        ]
        answer = f"The capital of {country} is {city}."
    elif kind == "colour":
        thing, colour = rng.choice(words(tables.COLOURS)).rsplit(" ", 1)
        asks = [f"What colour is {thing}?", f"Which colour does {thing} have?"]
        answer = f"{capital(thing)} is {colour}."
    else:
        one, other = rng.choice(words(tables.OPPOSITES)).split(" ")
        if rng.random() < 0.5:
            one, other = other, one
        asks = [f"What is the opposite of {one}?", f"Tell me the opposite of {one}."]
        answer = f"The opposite of {one} is {other}."
    return Conversation("facts", (("user", rng.choice(asks)), ("assistant", answer)))


def code(rng: random.Random) -> Conversation:
    purpose, name, parameters, body = rng.choice(rows(tables.CODE)).split(" | ")
    body = body.replace("\\n", "\n")
    question = rng.choice(
        [
            f"Write a Python function to {purpose}.",
            f"Write a function that can {purpose}.",
            f"How do I {purpose} in Python?",
            f"Show me Python code to {purpose}.",
        ]
    )
    lead = rng.choice(["Here is the function:", "You can write it like this:", "Try this:"])
    text = f"{lead}\n\n```python\ndef {name}({parameters}):\n    {body}\n```"
    return Conversation("code", (("user", question), ("assistant", text)))


def german(rng: random.Random) -> Conversation:
    chosen = rng.sample(rows(tables.GERMAN), rng.randint(2, 4))
    text = " ".join(fill(rng, line, tables.GERMAN_WORDS) for line in chosen)
    return Conversation(
        "german", (("user", rng.choice(rows(tables.GERMAN_PROMPTS))), ("assistant", text))
    )


def spanish(rng: random.Random) -> Conversation:
    chosen = rng.sample(rows(tables.SPANISH), rng.randint(2, 4))
    text = " ".join(fill(rng, line, tables.SPANISH_WORDS) for line in chosen)
    return Conversation(
        "spanish", (("user", rng.choice(rows(tables.SPANISH_PROMPTS))), ("assistant", text))
    )


def small_talk(rng: random.Random) -> Conversation:
    asks, answers = rng.choice(
        [(GREETINGS, GREETING_ANSWERS), (WHO, WHO_ANSWERS), (CAN, CAN_ANSWERS)]
    )
    return Conversation("talk", (("user", rng.choice(asks)), ("assistant", rng.choice(answers))))


# Weight of each kind of conversation; about() alone covers eight topics.
KINDS: tuple[tuple[Callable[[random.Random], Conversation], float], ...] = (
    (about, 0.50),
    (story, 0.12),
    (arithmetic, 0.08),
    (fact, 0.07),
    (code, 0.07),
    (german, 0.06),
    (spanish, 0.05),
    (small_talk, 0.05),
)


def conversation(rng: random.Random) -> Conversation:
    """One chat; sometimes with a system message, a greeting before it or thanks after it."""
    kinds, weights = zip(*KINDS, strict=True)
    chat = rng.choices(kinds, weights)[0](rng)
    messages = list(chat.messages)
    if rng.random() < 0.08:
        hello = [("user", rng.choice(GREETINGS)), ("assistant", rng.choice(GREETING_ANSWERS))]
        messages = hello + messages
    if rng.random() < 0.1:
        messages += [("user", rng.choice(THANKS)), ("assistant", rng.choice(WELCOME))]
    if rng.random() < 0.15:
        messages.insert(0, ("system", rng.choice(SYSTEMS)))
    return Conversation(chat.topic, tuple(messages))


def conversations(seed: int) -> Iterator[Conversation]:
    """An endless stream; every seed is a stream of its own."""
    rng = random.Random(seed)
    while True:
        yield conversation(rng)


def as_chatml(chat: Conversation) -> str:
    """The text as the model sees it, the same as its chat template renders."""
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in chat.messages)
