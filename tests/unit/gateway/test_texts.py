"""Templates and tokens: what is encoded how, and on which thread."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.errors import ModelFileError
from engine.text.load import load_text
from helpers.text_model import write_text_model
from services.gateway.fields import Prompt
from services.gateway.requests import Message
from services.gateway.texts import INLINE_CHARS_MAX, Texts


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_text_model(tmp_path / "text.gguf")


@pytest.fixture
async def texts(model: Path) -> AsyncIterator[Texts]:
    loaded = await Texts.load(model)
    yield loaded
    loaded.close()


def text_of(model: Path, tokens: list[int]) -> str:
    return load_text(model).tokenizer.decode(tokens)


async def test_texts_render_a_conversation_open_for_the_answer(texts: Texts, model: Path) -> None:
    messages = [
        Message(role="developer", content="Be brief."),
        Message(role="user", content="Hi"),
    ]
    tokens = await texts.encode_chat(messages, {})
    assert text_of(model, tokens) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert load_text(model).tokenizer.special_ids & set(tokens)  # the markers are single tokens


@pytest.mark.parametrize("prompt", ["the words", [5, 6, 7]])
async def test_texts_take_prompts_as_text_or_ids(texts: Texts, model: Path, prompt: Prompt) -> None:
    tokens = await texts.encode_prompt(prompt)
    assert tokens == (
        prompt if isinstance(prompt, list) else load_text(model).tokenizer.encode(prompt)
    )


@pytest.fixture
def encoders(texts: Texts, monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """The threads that encode from here on, one entry per call."""
    threads: list[threading.Thread] = []
    encode = texts.tokenizer.encode

    def watched(text: str, *, add_special: bool = False, parse_special: bool = False) -> list[int]:
        threads.append(threading.current_thread())
        return encode(text, add_special=add_special, parse_special=parse_special)

    monkeypatch.setattr(texts.tokenizer, "encode", watched)
    return threads


each_length = pytest.mark.parametrize(
    ("num_chars", "inline"), [(10, True), (INLINE_CHARS_MAX + 1, False)]
)


@each_length
async def test_texts_keep_long_work_off_the_event_loop(
    texts: Texts, encoders: list[threading.Thread], num_chars: int, inline: bool
) -> None:
    assert len(await texts.encode_prompt("x" * num_chars)) == num_chars
    assert (encoders == [threading.current_thread()]) == inline


@each_length
async def test_texts_count_every_field_of_a_message_as_work(
    texts: Texts, encoders: list[threading.Thread], num_chars: int, inline: bool
) -> None:
    message = Message(role="assistant", content="", reasoning_content="x" * num_chars)
    await texts.encode_chat([message], {})
    assert (encoders == [threading.current_thread()]) == inline


async def test_texts_name_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model")
    with pytest.raises(ModelFileError, match=r"broken\.gguf"):
        await Texts.load(path)
