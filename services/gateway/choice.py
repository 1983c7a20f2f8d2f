"""One choice: scheduler events in, pieces of text out. No I/O.

`stream` feeds it one event at a time. Text is held back by the detokenizer while it may turn out
to be half a character or the beginning of a stop string; scores wait for the text they belong to,
so that the tokens of a stop string are never reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from engine.text.detokenizer import Detokenizer
from engine.text.tokenizer import Tokenizer
from services.gateway.pieces import FinishReason, Piece, ScoredToken, Usage
from services.pb import common_pb2, scheduler_pb2

_FINISH: dict[int, FinishReason] = {
    scheduler_pb2.FINISH_REASON_STOP: "stop",
    scheduler_pb2.FINISH_REASON_LENGTH: "length",
}


class Choice:
    """The text of one choice as it grows. `finished` ends it: by an event or by a stop string."""

    def __init__(
        self,
        index: int,
        *,
        tokenizer: Tokenizer,
        num_prompt_tokens: int,
        stop: Sequence[str] = (),
        stop_tokens: frozenset[int] = frozenset(),
        with_scores: bool = False,
    ) -> None:
        self.index = index
        self.finished = False
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer(tokenizer, stop=tuple(stop))
        self._stop_tokens = stop_tokens
        self._with_scores = with_scores
        self._num_prompt_tokens = num_prompt_tokens
        self._num_tokens = 0
        self._pending: deque[ScoredToken] = deque()
        self._pending_start = 0  # bytes of text of all tokens before the first pending one
        self._released = 0  # bytes of text given out

    def feed(self, event: scheduler_pb2.SubmitEvent) -> Piece:
        """What this event adds. Nothing may be fed once `finished` is true."""
        assert not self.finished, "an event after the end of a choice"
        text = ""
        for count, token in enumerate(event.tokens, start=1):
            self._num_tokens += 1
            if token.id in self._stop_tokens:
                continue  # ends the choice and has no text
            text += self._detokenizer.push(token.id)
            if self._with_scores:
                self._pending.append(self._scored(token))
            if self._detokenizer.stopped:
                return self._end("stop", text, num_arrived=count, cached_tokens=0)
        if event.HasField("finish"):
            text += self._detokenizer.finish()
            reason: FinishReason = "stop" if self._detokenizer.stopped else _reason(event.finish)
            return self._end(
                reason,
                text,
                num_arrived=len(event.tokens),
                cached_tokens=event.finish.cached_tokens,
            )
        return Piece(
            choice=self.index,
            text=text,
            scores=self._release(text),
            num_tokens=len(event.tokens),
        )

    def _end(
        self, reason: FinishReason, text: str, *, num_arrived: int, cached_tokens: int
    ) -> Piece:
        self.finished = True
        scores = self._release(text)
        if not self._detokenizer.stopped:
            scores += tuple(self._pending)
        return Piece(
            choice=self.index,
            text=text,
            scores=scores,
            finish=reason,
            usage=Usage(
                prompt_tokens=self._num_prompt_tokens,
                cached_tokens=cached_tokens,
                completion_tokens=self._num_tokens,
            ),
            num_tokens=num_arrived,
        )

    def _scored(self, token: common_pb2.Token) -> ScoredToken:
        return ScoredToken(
            token_bytes=self._tokenizer.token_bytes(token.id),
            logprob=token.logprob,
            num_text_bytes=len(self._detokenizer.text_bytes(token.id)),
            top=tuple(
                (self._tokenizer.token_bytes(best.token), best.logprob) for best in token.top
            ),
        )

    def _release(self, text: str) -> tuple[ScoredToken, ...]:
        """Scores of the tokens whose first byte is now out.

        Bytes of tokens and bytes of text agree except where invalid UTF-8 was replaced, which
        can only make a score come earlier than its text.
        """
        self._released += len(text.encode())
        out: list[ScoredToken] = []
        while self._pending and self._pending_start < self._released:
            out.append(self._pending.popleft())
            self._pending_start += out[-1].num_text_bytes
        return tuple(out)


def _reason(finish: scheduler_pb2.Finish) -> FinishReason:
    reason = _FINISH.get(finish.reason)
    assert reason is not None, f"the scheduler ended a request with reason {finish.reason}"
    return reason
