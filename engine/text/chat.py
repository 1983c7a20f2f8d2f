"""Messages to the text that a model was trained on, by the chat template in its file.

Used by the gateway and `lamina generate`. A file without a template has no `ChatTemplate`: callers
refuse chat requests and say so; no other model's template is put in its place.

The rendered text is encoded with `parse_special=True`, because templates write their turn markers
as text. So does the field (llama.cpp, vLLM, Transformers), with the same consequence: a user who
types <|im_end|> ends their own turn and may forge another. That reaches no one else's conversation;
an application that puts untrusted text into messages must strip the markers (`special_ids`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from jinja2 import Template, TemplateError, TemplateSyntaxError, meta

from engine.errors import PromptError, TextError
from engine.text.sandbox import ChatEnvironment, Limits
from engine.text.tokenizer import Tokenizer

KEY = "tokenizer.chat_template"
SOURCE_CHARS_MAX = 1 << 20
# What a template's own expressions can raise on messages it was not written for.
_RENDER_ERRORS = (
    *(TemplateError, ArithmeticError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)


class ChatTemplate:
    """One compiled template. `render` may be called from several threads."""

    def __init__(
        self,
        source: str,
        *,
        bos_token: str = "",
        eos_token: str = "",
        limits: Limits | None = None,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Raises TextError for a template that does not compile."""
        self.source = source
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._environment = ChatEnvironment(limits or Limits(), now)
        self._template = _compiled(self._environment, source)
        self._variables = meta.find_undeclared_variables(self._environment.parse(source))

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, object], tokenizer: Tokenizer
    ) -> ChatTemplate | None:
        """The file's template, or None if it has none. Raises TextError."""
        source = metadata.get(KEY)
        if source is None:
            return None
        if not isinstance(source, str):
            raise TextError(f"{KEY} is {source!r}, not a string")
        return cls(
            source,
            bos_token=_text_of(tokenizer, tokenizer.bos_id),
            eos_token=_text_of(tokenizer, tokenizer.eos_id),
        )

    def knows(self, switch: str) -> bool:
        """Whether the template looks at a variable that its caller may set."""
        return switch in self._variables

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, object]] | None = None,
        **arguments: object,
    ) -> str:
        """The prompt. `arguments` are the template's own switches, such as enable_thinking.

        Raises PromptError if the template refuses the messages or cannot be rendered with them.
        """
        variables: dict[str, object] = {
            **arguments,
            **self._tokens,
            "messages": [_plain(message, index) for index, message in enumerate(messages)],
            "add_generation_prompt": add_generation_prompt,
            "tools": None if tools is None else list(tools),
            "range": self._environment.counted_range(),
        }
        try:
            return "".join(self._written(self._template.generate(variables)))
        except _RENDER_ERRORS as error:
            reason = str(error) or type(error).__name__
            raise PromptError(f"the chat template refuses these messages: {reason}") from error

    def _written(self, pieces: Iterator[str]) -> Iterator[str]:
        """Pass the output on, up to its limit."""
        left = self._environment.limits.output_chars_max
        for piece in pieces:
            left -= len(piece)
            if left < 0:
                raise PromptError(
                    "the chat template writes more than"
                    f" {self._environment.limits.output_chars_max} characters"
                )
            yield piece


def _compiled(environment: ChatEnvironment, source: str) -> Template:
    if len(source) > SOURCE_CHARS_MAX:
        raise TextError(f"{KEY} has {len(source)} characters, more than {SOURCE_CHARS_MAX}")
    try:
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        raise TextError(f"{KEY} line {error.lineno}: {error.message}") from None
    except (TemplateError, RecursionError, SyntaxError, ValueError, OverflowError) as error:
        raise TextError(f"{KEY} cannot be compiled: {error}") from None


def _text_of(tokenizer: Tokenizer, id: int | None) -> str:
    return "" if id is None else tokenizer.token_text(id)


def _plain(message: Mapping[str, object], index: int) -> dict[str, object]:
    """A message as templates expect it: content as one text, tool arguments as objects."""
    if not isinstance(message.get("role"), str):
        raise PromptError(f"message {index} has no role")
    plain = dict(message)
    if "content" in message:
        plain["content"] = _content(message["content"], index)
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        plain["tool_calls"] = [_tool_call(call, index) for call in calls]
    return plain


def _content(content: object, index: int) -> str | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise PromptError(f"the content of message {index} is neither text nor a list of parts")
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text":
            raise PromptError(
                f"message {index} has a part of type {kind!r}; this server takes text only"
            )
        text = part.get("text")
        if not isinstance(text, str):
            raise PromptError(f"message {index} has a text part without text")
        texts.append(text)
    return "\n".join(texts)


def _tool_call(call: object, index: int) -> object:
    """Clients send arguments as JSON text; templates list them one by one."""
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
        raise PromptError(f"message {index} has a tool call without a function")
    function = dict(call["function"])
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            function["arguments"] = json.loads(arguments or "{}")
        except ValueError:
            raise PromptError(
                f"message {index} has a tool call whose arguments are not JSON"
            ) from None
    return {**call, "function": function}
