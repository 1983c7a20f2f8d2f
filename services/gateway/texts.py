"""The text side of the served model: templates and tokens, off the event loop when they are large.

Owned by `app.Gateway`; `load` runs once at start, in a thread, while the server already answers
health checks. Two threads serve large texts; how many may wait is bounded by the gateway's limit
on open requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import PromptError
from engine.text.load import TextSide, load_text
from engine.text.tokenizer import Tokenizer
from services.gateway.failures import BadRequest
from services.gateway.fields import Prompt
from services.gateway.requests import EFFORT, Message

THREADS = 2
INLINE_CHARS_MAX = 4096  # about a millisecond of tokenising; more would stall other streams

T = TypeVar("T")


class Texts:
    """Tokenizer and chat template of one model, for use on the event loop."""

    def __init__(self, text: TextSide, pool: ThreadPoolExecutor) -> None:
        self._text = text
        self._pool = pool

    @classmethod
    async def load(cls, path: Path) -> Texts:
        """Read the model file's metadata. Raises engine.errors.EngineError."""
        pool = ThreadPoolExecutor(THREADS, thread_name_prefix="texts")
        try:
            return cls(
                await asyncio.get_running_loop().run_in_executor(pool, load_text, path), pool
            )
        except BaseException:
            pool.shutdown(wait=False)
            raise

    def close(self) -> None:
        """Give the threads back; work not begun is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def tokenizer(self) -> Tokenizer:
        """For detokenizing; not for encoding, which may be long."""
        return self._text.tokenizer

    async def encode_chat(
        self, messages: Sequence[Message], template_arguments: dict[str, Any]
    ) -> list[int]:
        """Token ids of a conversation, open for the assistant's answer. Raises BadRequest."""
        template = self._text.chat_template
        if template is None:
            raise BadRequest(
                "This model has no chat template; use /v1/completions.",
                param="messages",
                code="unsupported_parameter",
            )
        if EFFORT in template_arguments and not template.knows(EFFORT):
            raise BadRequest(
                f"This model's chat template knows no '{EFFORT}'.",
                param=EFFORT,
                code="unsupported_parameter",
            )
        turns = [message.for_template() for message in messages]

        def encode() -> list[int]:
            try:
                text = template.render(turns, add_generation_prompt=True, **template_arguments)
            except PromptError as error:
                raise BadRequest(str(error), param="messages") from error
            # The template writes the model's own special tokens, so none are added.
            return self._encode(text, add_special=False, param="messages")

        num_chars = sum(len(text) for turn in turns for text in turn.values())
        return await self._run(encode, num_chars)

    async def encode_prompt(self, prompt: Prompt) -> list[int]:
        """Token ids of one prompt; ids pass as they are. Raises BadRequest."""
        if isinstance(prompt, list):
            return prompt
        return await self._run(
            lambda: self._encode(prompt, add_special=True, param="prompt"), len(prompt)
        )

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of a prompt that came as ids."""
        return self.tokenizer.decode(tokens)

    def _encode(self, text: str, *, add_special: bool, param: str) -> list[int]:
        try:
            return self.tokenizer.encode(text, add_special=add_special, parse_special=True)
        except PromptError as error:
            raise BadRequest(str(error), param=param) from error

    async def _run(self, work: Callable[[], T], num_chars: int) -> T:
        if num_chars <= INLINE_CHARS_MAX:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)
