"""The wire format of replies: envelopes, chunks, scores."""

from __future__ import annotations

from services.gateway.pieces import Piece, ScoredToken, Usage
from services.gateway.responses import (
    ChatReply,
    CompletionReply,
    Head,
    WholeChoice,
)

USAGE = Usage(prompt_tokens=3, cached_tokens=2, completion_tokens=4)
USAGE_BODY = {
    "prompt_tokens": 3,
    "completion_tokens": 4,
    "total_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 2},
}
SCORE = ScoredToken(
    token_bytes=b"hi", logprob=-0.5, top=((b"hi", -0.5), (b"\xff", -1.5)), num_text_bytes=2
)


def head(*, with_usage: bool = False) -> Head:
    return Head(id="x-1", model="m", created=7, with_usage=with_usage)


def test_head_ids_are_fresh_and_prefixed() -> None:
    first, second = Head.new("cmpl", "m"), Head.new("cmpl", "m")
    assert first.id.startswith("cmpl-")
    assert first.id != second.id


def test_chat_chunks_open_with_the_role_and_close_with_an_empty_delta() -> None:
    reply = ChatReply(head())
    envelope = {"id": "x-1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    empty = {"index": 1, "logprobs": None, "finish_reason": None}
    assert reply.opening(1) == envelope | {
        "choices": [empty | {"delta": {"role": "assistant", "content": ""}}]
    }
    assert reply.chunk(Piece(choice=1, text="a")) == envelope | {
        "choices": [empty | {"delta": {"content": "a"}}]
    }
    assert reply.closing(1, "stop") == envelope | {
        "choices": [empty | {"delta": {}, "finish_reason": "stop"}]
    }


def test_chat_chunks_carry_null_usage_until_the_usage_chunk() -> None:
    reply = ChatReply(head(with_usage=True))
    assert reply.opening(0)["usage"] is None
    last = reply.usage_chunk(USAGE)
    assert last["choices"] == []
    assert last["usage"] == USAGE_BODY


def test_chat_chunks_have_no_usage_field_unless_asked_for() -> None:
    assert "usage" not in ChatReply(head()).opening(0)


def test_chat_scores_carry_text_bytes_and_alternatives() -> None:
    reply = ChatReply(head(), with_scores=True)
    choices = reply.chunk(Piece(choice=0, text="hi", scores=(SCORE,)))["choices"]
    assert isinstance(choices, list)
    assert choices[0]["logprobs"]["content"] == [
        {
            "token": "hi",
            "logprob": -0.5,
            "bytes": [104, 105],
            "top_logprobs": [
                {"token": "hi", "logprob": -0.5, "bytes": [104, 105]},
                {"token": "�", "logprob": -1.5, "bytes": [255]},
            ],
        }
    ]


def test_chat_whole_is_a_message_per_choice() -> None:
    whole = ChatReply(head()).whole([WholeChoice(text="a", scores=(), finish="stop")], USAGE)
    assert whole["object"] == "chat.completion"
    assert whole["usage"] == USAGE_BODY
    assert whole["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "a", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]


def test_completion_offsets_run_on_over_chunks() -> None:
    reply = CompletionReply(head(), with_scores=True)
    offsets = []
    for _ in range(2):
        choices = reply.chunk(Piece(choice=0, text="hihi", scores=(SCORE, SCORE)))["choices"]
        assert isinstance(choices, list)
        offsets += choices[0]["logprobs"]["text_offset"]
    assert offsets == [0, 2, 4, 6]


def test_completion_scores_name_bytes_that_are_not_text() -> None:
    reply = CompletionReply(head(), with_scores=True)
    choices = reply.chunk(Piece(choice=0, text="hi", scores=(SCORE,)))["choices"]
    assert isinstance(choices, list)
    assert choices[0]["logprobs"]["top_logprobs"] == [{"hi": -0.5, "bytes:\\xff": -1.5}]


def test_completion_echo_comes_before_the_text() -> None:
    reply = CompletionReply(head(), echoes=["ask: "])
    opening = reply.opening(0)
    assert opening is not None
    assert opening["choices"] == [
        {"text": "ask: ", "index": 0, "logprobs": None, "finish_reason": None}
    ]
    whole = reply.whole([WholeChoice(text="a", scores=(), finish="length")], USAGE)
    assert whole["choices"] == [
        {"text": "ask: a", "index": 0, "logprobs": None, "finish_reason": "length"}
    ]


def test_completion_without_echo_has_no_opening() -> None:
    assert CompletionReply(head()).opening(0) is None
