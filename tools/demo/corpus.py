"""The demo corpus: an endless, deterministic stream of chats about a few topics.

`document(rng)` is a piece of training text, `one_kind(rng)` a chat with its topic. Everything is
put together from the `*_tables.py` files; the same seed gives the same text. Called by `batches.py`
for training and held-out text, and by `measure.py` for how routing depends on the topic.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.demo import talk_tables
from tools.demo.facts import arithmetic, code, counting, fact, listing, reason, steps
from tools.demo.stories import poem, story
from tools.demo.talk import german, small_talk, spanish, translation, unknown
from tools.demo.text import Conversation, Turn, pick
from tools.demo.topics import about

END_OF_TEXT = "<|endoftext|>"
GREETINGS, THANKS = talk_tables.TALK[0], talk_tables.TALK[5]

# Weight of each kind of conversation; about() alone covers eight topics.
KINDS: tuple[tuple[Callable[[random.Random], Conversation], float], ...] = (
    (about, 0.38),
    (story, 0.16),
    (arithmetic, 0.07),
    (counting, 0.01),
    (fact, 0.06),
    (reason, 0.03),
    (steps, 0.03),
    (listing, 0.02),
    (code, 0.05),
    (poem, 0.02),
    (german, 0.05),
    (spanish, 0.04),
    (translation, 0.02),
    (small_talk, 0.04),
    (unknown, 0.05),
)


def conversation(rng: random.Random) -> Conversation:
    """One chat; sometimes several in a row, with a system message, a greeting or thanks."""
    chat = one_kind(rng)
    messages = list(chat.messages)
    if rng.random() < 0.2:
        for _ in range(rng.randint(1, 5)):
            messages += one_kind(rng).messages
    if rng.random() < 0.08:
        messages = [
            ("user", pick(rng, GREETINGS[0])),
            ("assistant", pick(rng, GREETINGS[1])),
            *messages,
        ]
    if rng.random() < 0.08:
        messages += [("user", pick(rng, THANKS[0])), ("assistant", pick(rng, THANKS[1]))]
    messages = [(role, typed(rng, text) if role == "user" else text) for role, text in messages]
    if rng.random() < 0.15:
        messages.insert(0, ("system", rng.choice(talk_tables.SYSTEMS)))
    return Conversation(chat.topic, tuple(messages))


def one_kind(rng: random.Random) -> Conversation:
    """A chat of one kind, drawn by weight."""
    weights = [weight for _, weight in KINDS]
    kind, _ = rng.choices(KINDS, weights)[0]
    return kind(rng)


def typed(rng: random.Random, text: str) -> str:
    """The question as people type it: sometimes without capital, stop, or with a please."""
    chance = rng.random()
    if chance < 0.12:
        text = text[0].lower() + text[1:]
    elif chance < 0.17 and text[-1] in ".?":
        text = f"Please {text[0].lower()}{text[1:]}" if text[-1] == "." else text
    if rng.random() < 0.12 and text[-1] in ".?!":
        text = text[:-1]
    return text


def as_chatml(messages: tuple[Turn, ...]) -> str:
    """The text as the model sees it, the same as its chat template renders."""
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in messages)


def document(rng: random.Random) -> str:
    """What is trained on: a chat, or now and then its longest answer as plain text."""
    chat = conversation(rng)
    if rng.random() < 0.08:
        answers = [text for role, text in chat.messages if role == "assistant"]
        return max(answers, key=len) + END_OF_TEXT
    return as_chatml(chat.messages)
