"""Chats about the eight topics: what a thing is like, what a topic is like, and more of it."""

from __future__ import annotations

import random

from tools.demo import topics_tables as tables
from tools.demo.text import Conversation, Turn, bare, capital, fill, rows, with_articles, words

ASK = (
    "Tell me about {x}.|What can you say about {x}?|What do you know about {x}?|Describe {x}.|"
    "Tell me something about {x}.|What is {x} like?|Please tell me about {x}.|"
    "I would like to know more about {x}.|Can you explain {x}?|Write about {x}.|What about {x}?|"
    "Say something about {x}, please.|Write a few sentences about {x}.|What is {x}?|{X}|"
    "Do you know anything about {x}?|Explain {x} to a child.|Why do people like {x}?|"
    "Can you tell me about {x}?|Do you like {x}?|I want to learn about {x}."
).split("|")
ASK_TOPIC = (
    "Tell me about {x}.|Let us talk about {x}.|I like {x}. Tell me more.|Say something about {x}.|"
    "Write a paragraph about {x}.|What is interesting about {x}?|Can we talk about {x}?|"
    "Describe a scene with {x}.|What do you know about {x}?|Write something about {x}."
).split("|")
TOPIC_NAMES = {
    "sea": "the ocean|boats|the sea and its animals|the coast|life at sea|sailing",
    "space": "space|the stars|the night sky|planets|the universe|astronomy",
    "garden": "gardens|flowers|plants|gardening|bees and flowers|my garden",
    "cooking": "cooking|food|a recipe|the kitchen|dinner|vegetables",
    "weather": "the weather|rain and wind|storms|the seasons|the weather tomorrow",
    "music": "music|songs|instruments|musicians|an evening of music",
    "village": "the village|village life|the people of the village|a small town",
    "animals": "animals|wild animals|the animals of the forest|pets|the forest",
}
MORE = (
    "Tell me more.|And what else?|More, please.|Go on.|Is there more?|What else?|Continue.|"
    "Please go on.|Anything else?|more"
).split("|")
SWITCH = "And {x}?|What about {x}?|Now tell me about {x}.|And what is {x} like?".split("|")


def entities(topic: str) -> list[tuple[str, str, list[str]]]:
    """(name, pronoun, facts) of a topic."""
    found = []
    for line in rows(tables.ENTITIES[topic]):
        name, pronoun, facts = line.split(" | ")
        found.append((name, pronoun, [fact.strip() for fact in facts.split(";")]))
    return found


def describe(rng: random.Random, name: str, pronoun: str, facts: list[str]) -> str:
    """Sentences about one thing, one for each fact or two facts joined."""
    sentences: list[str] = []
    left = list(facts)
    while left:
        fact = left.pop(0)
        if left and rng.random() < 0.25 and "," not in fact:
            fact = f"{fact} and {left.pop(0)}"
        if not sentences or rng.random() < 0.15:
            subject = capital(name)
        elif rng.random() < 0.12:
            subject = f"Some say that {bare_with_article(name)}"
        else:
            subject = capital(pronoun)
        sentences.append(f"{subject} {fact}.")
    return " ".join(sentences)


def bare_with_article(name: str) -> str:
    """`the fox` for `a fox`; plurals and names stay."""
    return f"the {bare(name)}" if bare(name) != name else name


def scenes(rng: random.Random, topic: str, count: int) -> str:
    """Sentences that paint the topic."""
    templates = rng.sample(rows(tables.SCENES[topic]), count)
    lists = {**tables.COMMON, **tables.WORDS[topic]}
    return " ".join(with_articles(fill(rng, template, lists)) for template in templates)


def spoken(rng: random.Random, name: str) -> str:
    """How a person names the thing: as it is, or in another number or article."""
    if rng.random() < 0.7 or bare(name) == name:
        return name
    return rng.choice([bare_with_article(name), bare(name), with_articles(f"a {bare(name)}")])


def about_thing(rng: random.Random, topic: str) -> list[Turn]:
    """A question about one thing, and perhaps a request for more of it."""
    name, pronoun, facts = rng.choice(entities(topic))
    rng.shuffle(facts)
    count = rng.randint(2, 4)
    answer = describe(rng, name, pronoun, facts[:count])
    if rng.random() < 0.4:
        answer += " " + scenes(rng, topic, 1)
    asked = spoken(rng, name)
    question = rng.choice(ASK).format(x=asked, X=capital(asked))
    turns = [("user", question), ("assistant", answer)]
    if rng.random() < 0.3:
        rest = describe(rng, name, pronoun, facts[count:]) if facts[count:] else ""
        turns += [
            ("user", rng.choice(MORE)),
            ("assistant", f"{rest} {scenes(rng, topic, rng.randint(1, 2))}".strip()),
        ]
    return turns


def about_topic(rng: random.Random, topic: str) -> list[Turn]:
    """A question about the topic as a whole."""
    question = rng.choice(ASK_TOPIC).format(x=rng.choice(TOPIC_NAMES[topic].split("|")))
    turns = [("user", question), ("assistant", scenes(rng, topic, rng.randint(2, 4)))]
    if rng.random() < 0.25:
        turns += [("user", rng.choice(MORE)), ("assistant", scenes(rng, topic, 2))]
    return turns


def switched(rng: random.Random, topic: str) -> list[Turn]:
    """After one thing, another of the same topic."""
    name, pronoun, facts = rng.choice(entities(topic))
    question = rng.choice(SWITCH).format(x=name)
    return [("user", question), ("assistant", describe(rng, name, pronoun, rng.sample(facts, 2)))]


def about(rng: random.Random) -> Conversation:
    """Chat about one of the eight topics."""
    topic = rng.choice(list(tables.ENTITIES))
    turns = about_thing(rng, topic) if rng.random() < 0.65 else about_topic(rng, topic)
    if rng.random() < 0.15:
        turns += switched(rng, topic)
    return Conversation(topic, tuple(turns))


def known_things() -> list[str]:
    """Names of everything the corpus describes."""
    return [name for topic in tables.ENTITIES for name, _, _ in entities(topic)]


def topic_word(rng: random.Random) -> str:
    """A topic as the model names it when it offers something else."""
    return rng.choice(words("the sea, the stars, gardens, cooking, the weather, music, animals"))
