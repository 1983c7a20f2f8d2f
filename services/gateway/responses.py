"""Replies as clients read them: chat completions and completions, whole or in chunks.

`stream` and `app` drive a `Reply`; it knows one wire format and nothing of time or transport.
Source: OpenAI API reference, the chat completion (chunk) and completion objects.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from services.gateway.pieces import FinishReason, Piece, ScoredToken, Usage

Json = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeChoice:
    """One choice after its end."""

    text: str
    scores: tuple[ScoredToken, ...]
    finish: FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What every body and chunk of one reply repeats."""

    id: str
    model: str
    created: int  # unix time in seconds
    with_usage: bool  # chunks carry a usage field

    @classmethod
    def new(cls, prefix: str, model: str, *, with_usage: bool = False) -> Head:
        """A head with a fresh id."""
        return cls(
            id=f"{prefix}-{uuid.uuid4().hex}",
            model=model,
            created=int(time.time()),
            with_usage=with_usage,
        )

    def body(self, kind: str, choices: list[Json], usage: Usage | None) -> Json:
        """The envelope around choices; a chunk's usage is null until the last."""
        body: Json = {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }
        if usage is not None:
            body["usage"] = usage_body(usage)
        elif self.with_usage:
            body["usage"] = None
        return body


class Reply(Protocol):
    """One reply in one wire format."""

    @property
    def head(self) -> Head: ...

    def opening(self, choice: int) -> Json | None:
        """The chunk before a choice's first text, if the format has one."""
        ...

    def chunk(self, piece: Piece) -> Json:
        """The chunk that carries a piece's text and scores."""
        ...

    def closing(self, choice: int, finish: FinishReason) -> Json:
        """A choice's last chunk."""
        ...

    def usage_chunk(self, usage: Usage) -> Json:
        """The chunk after all choices, for clients that asked for it."""
        ...

    def whole(self, choices: Sequence[WholeChoice], usage: Usage) -> Json:
        """The body of an unstreamed reply."""
        ...


@dataclass(frozen=True, slots=True)
class ChatReply:
    """Chat completion: a message, or deltas of it."""

    head: Head
    with_scores: bool = False

    def opening(self, choice: int) -> Json:
        """The role comes alone, before any text."""
        return self._chunk(choice, {"role": "assistant", "content": ""})

    def chunk(self, piece: Piece) -> Json:
        """A content delta."""
        scores = self._scores(piece.scores)
        return self._chunk(piece.choice, {"content": piece.text}, scores=scores)

    def closing(self, choice: int, finish: FinishReason) -> Json:
        """An empty delta with the finish reason."""
        return self._chunk(choice, {}, finish=finish)

    def usage_chunk(self, usage: Usage) -> Json:
        """No choices: an empty list, as clients iterate over it."""
        return self.head.body("chat.completion.chunk", [], usage)

    def whole(self, choices: Sequence[WholeChoice], usage: Usage) -> Json:
        """Every choice as a finished message."""
        bodies: list[Json] = [
            {
                "index": index,
                "message": {"role": "assistant", "content": choice.text, "refusal": None},
                "logprobs": self._scores(choice.scores),
                "finish_reason": choice.finish,
            }
            for index, choice in enumerate(choices)
        ]
        return self.head.body("chat.completion", bodies, usage)

    def _chunk(
        self,
        choice: int,
        delta: Json,
        *,
        scores: Json | None = None,
        finish: FinishReason | None = None,
    ) -> Json:
        body: Json = {
            "index": choice,
            "delta": delta,
            "logprobs": scores,
            "finish_reason": finish,
        }
        return self.head.body("chat.completion.chunk", [body], None)

    def _scores(self, scores: Iterable[ScoredToken]) -> Json | None:
        if not self.with_scores:
            return None
        return {
            "content": [
                {
                    **_chat_token(score.token_bytes, score.logprob),
                    "top_logprobs": [_chat_token(*candidate) for candidate in score.top],
                }
                for score in scores
            ],
            "refusal": None,
        }


@dataclass(slots=True)
class CompletionReply:
    """Completion: text that continues a prompt, which `echoes` repeats before each choice."""

    head: Head
    with_scores: bool = False
    echoes: Sequence[str] = ()  # one per choice, or empty
    _offsets: dict[int, int] = field(default_factory=dict)  # characters of scored tokens so far

    def opening(self, choice: int) -> Json | None:
        """The echoed prompt, if the client asked for it."""
        return self._chunk(choice, self.echoes[choice]) if self.echoes else None

    def chunk(self, piece: Piece) -> Json:
        """A stretch of text."""
        scores = self._scores(piece.choice, piece.scores)
        return self._chunk(piece.choice, piece.text, scores=scores)

    def closing(self, choice: int, finish: FinishReason) -> Json:
        """No text, and the finish reason."""
        return self._chunk(choice, "", finish=finish)

    def usage_chunk(self, usage: Usage) -> Json:
        """No choices: an empty list, as clients iterate over it."""
        return self.head.body("text_completion", [], usage)

    def whole(self, choices: Sequence[WholeChoice], usage: Usage) -> Json:
        """Every choice's text."""
        bodies: list[Json] = [
            {
                "text": (self.echoes[index] if self.echoes else "") + choice.text,
                "index": index,
                "logprobs": self._scores(index, choice.scores),
                "finish_reason": choice.finish,
            }
            for index, choice in enumerate(choices)
        ]
        return self.head.body("text_completion", bodies, usage)

    def _chunk(
        self,
        choice: int,
        text: str,
        *,
        scores: Json | None = None,
        finish: FinishReason | None = None,
    ) -> Json:
        body: Json = {"text": text, "index": choice, "logprobs": scores, "finish_reason": finish}
        return self.head.body("text_completion", [body], None)

    def _scores(self, choice: int, scores: Sequence[ScoredToken]) -> Json | None:
        if not self.with_scores:
            return None
        offset = self._offsets.get(choice, 0)
        texts = [_token_text(score.token_bytes) for score in scores]
        offsets: list[int] = []
        for score in scores:
            offsets.append(offset)
            if score.num_text_bytes:
                offset += len(score.token_bytes.decode("utf-8", errors="replace"))
        self._offsets[choice] = offset
        return {
            "tokens": texts,
            "token_logprobs": [score.logprob for score in scores],
            "top_logprobs": [
                {_token_text(token): logprob for token, logprob in score.top} for score in scores
            ],
            "text_offset": offsets,
        }


def usage_body(usage: Usage) -> Json:
    """The usage object."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _chat_token(token: bytes, logprob: float) -> Json:
    return {
        "token": token.decode("utf-8", errors="replace"),
        "logprob": logprob,
        "bytes": list(token),
    }


def _token_text(token: bytes) -> str:
    """Tokens name dictionary entries here, so bytes that are not text must stay distinct."""
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
