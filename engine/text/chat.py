"""Messages to prompt text, by the chat template that a model's file carries.

A template is a program by whoever made the file: it runs in jinja2's sandbox, with bounded output.
The rendered prompt is tokenised with control tokens parsed, because the template spells its turns
with them; so a user who types `<|im_end|>` ends a turn, here as in every server of the field.
Source: apply_chat_template in transformers 5.24 for the names that templates expect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import PromptError, TextError
from engine.text.tokenizer import Tokenizer

KEY = "tokenizer.chat_template"
OUTPUT_CHARACTERS_MAX = 32 << 20
Message = Mapping[str, Any]


class ChatTemplate:
    """A compiled template. Safe to use from several threads."""

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "") -> None:
        """Raises TextError when the template does not compile."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        environment.globals["bos_token"] = bos_token
        environment.globals["eos_token"] = eos_token
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise TextError(f"chat template, line {error.lineno}: {error.message}") from None

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, object], tokenizer: Tokenizer
    ) -> ChatTemplate | None:
        """The template of a file, or None when it has none."""
        source = metadata.get(KEY)
        if source is None:
            return None
        if not isinstance(source, str):
            raise TextError(f"metadata {KEY} is not a string")
        bos, eos = (
            tokenizer.token_text(id) if id is not None else ""
            for id in (tokenizer.bos_id, tokenizer.eos_id)
        )
        return cls(source, bos_token=bos, eos_token=eos)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The prompt. `variables` are the template's own switches, such as enable_thinking.

        Raises PromptError when the template refuses the messages.
        """
        turns = [_with_plain_content(message) for message in messages]
        arguments = {"tools": tools, **variables} if tools else variables
        pieces: list[str] = []
        length = 0
        try:
            for piece in self._template.generate(
                messages=turns, add_generation_prompt=add_generation_prompt, **arguments
            ):
                length += len(piece)
                if length > OUTPUT_CHARACTERS_MAX:
                    raise PromptError("the chat template's output is too long")
                pieces.append(piece)
        except SecurityError as error:
            raise TextError(f"chat template: {error}") from None
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            # Whatever a template does with messages it did not expect, the messages are to blame.
            raise PromptError(f"the chat template refuses these messages: {error}") from None
        except (OverflowError, RecursionError, MemoryError) as error:
            raise TextError(f"chat template: {type(error).__name__}") from None
        return "".join(pieces)


def _with_plain_content(message: Message) -> dict[str, Any]:
    """Text parts joined to one string; templates of text models expect no list."""
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
        if kind != "text" or not isinstance(part.get("text"), str):
            raise PromptError(f"content part of type {kind!r}: this model reads text only")
        texts.append(part["text"])
    return {**message, "content": "\n".join(texts)}


def _tojson(value: object, **options: Any) -> str:
    """Plain JSON, without the HTML escapes of jinja2's own filter."""
    options.setdefault("ensure_ascii", False)
    return json.dumps(value, **options)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().astimezone().strftime(format)
