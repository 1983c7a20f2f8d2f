"""One choice: events in, pieces out; text, scores, ends and counts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from helpers.text_metadata import id_of, tiny_tokenizer
from services.gateway.choice import Choice
from services.gateway.pieces import Piece, Usage
from services.pb import common_pb2, scheduler_pb2

STOP = scheduler_pb2.FINISH_REASON_STOP
LENGTH = scheduler_pb2.FINISH_REASON_LENGTH


TOKENIZER = tiny_tokenizer()
END = id_of(TOKENIZER, "<|im_end|>")
START = id_of(TOKENIZER, "<|im_start|>")  # a special token that ends nothing
(THE,) = TOKENIZER.encode("the")


def choice(*, stop: Sequence[str] = (), with_scores: bool = False) -> Choice:
    return Choice(
        2,
        tokenizer=TOKENIZER,
        num_prompt_tokens=9,
        stop=stop,
        stop_tokens=TOKENIZER.stop_ids,
        with_scores=with_scores,
    )


def event(tokens: Sequence[int], finish: int | None = None) -> scheduler_pb2.SubmitEvent:
    made = scheduler_pb2.SubmitEvent(
        tokens=[common_pb2.Token(id=token, logprob=-0.25) for token in tokens]
    )
    if finish is not None:
        made.finish.CopyFrom(
            scheduler_pb2.Finish(
                reason=scheduler_pb2.FinishReason.Name(finish),
                prompt_tokens=9,
                cached_tokens=4,
            )
        )
    return made


def scored(piece: Piece) -> list[bytes]:
    return [score.token_bytes for score in piece.scores]


def test_choice_passes_text_on() -> None:
    piece = choice().feed(event(b"hi"))
    assert (piece.choice, piece.text, piece.num_tokens, piece.finish) == (2, "hi", 2, None)


def test_choice_ends_at_the_end_token_and_counts_it() -> None:
    subject = choice()
    piece = subject.feed(event([*b"hi", END], STOP))
    assert subject.finished
    assert (piece.text, piece.finish) == ("hi", "stop")
    assert piece.usage == Usage(prompt_tokens=9, cached_tokens=4, completion_tokens=3)


def test_choice_ends_at_its_length() -> None:
    assert choice().feed(event(b"hi", LENGTH)).finish == "length"


def test_choice_holds_back_half_a_character_and_gives_it_up_at_the_end() -> None:
    subject = choice()
    assert subject.feed(event("ü".encode()[:1])).text == ""
    assert subject.feed(event("ü".encode()[1:])).text == "ü"
    assert subject.feed(event("ü".encode()[:1])).text == ""
    assert subject.feed(event([], LENGTH)).text == "�"


def test_choice_stops_at_a_string_in_the_middle_of_an_event() -> None:
    subject = choice(stop=["XY"])
    piece = subject.feed(event(b"abXYcd", LENGTH))
    assert subject.finished
    assert (piece.text, piece.finish) == ("ab", "stop")
    assert piece.usage is not None
    assert piece.usage.completion_tokens == 4
    assert piece.num_tokens == 4


def test_choice_refuses_events_after_its_end() -> None:
    subject = choice()
    subject.feed(event([], LENGTH))
    with pytest.raises(AssertionError, match="after the end"):
        subject.feed(event(b"x"))


def test_choice_refuses_an_end_without_a_reason() -> None:
    with pytest.raises(AssertionError, match="reason 0"):
        choice().feed(event([], scheduler_pb2.FINISH_REASON_UNSPECIFIED))


def test_choice_gives_no_scores_unless_asked_for() -> None:
    assert choice().feed(event(b"hi")).scores == ()


def test_choice_scores_come_with_their_text() -> None:
    subject = choice(with_scores=True, stop=["bX"])
    assert scored(subject.feed(event(b"a"))) == [b"a"]
    held = subject.feed(event(b"b"))
    assert (held.text, scored(held)) == ("", [])
    released = subject.feed(event(b"c"))
    assert (released.text, scored(released)) == ("bc", [b"b", b"c"])


def test_choice_scores_leave_out_the_tokens_of_a_stop_string() -> None:
    subject = choice(with_scores=True, stop=["XY"])
    assert scored(subject.feed(event(b"aXY"))) == [b"a"]


def test_choice_scores_keep_a_token_that_only_ends_in_a_stop_string() -> None:
    subject = choice(with_scores=True, stop=["e"])
    piece = subject.feed(event([THE]))
    assert (piece.text, scored(piece)) == ("th", [b"the"])


def test_choice_scores_include_special_tokens_which_have_no_text() -> None:
    piece = choice(with_scores=True).feed(event([*b"a", START, *b"b"]))
    assert (piece.text, scored(piece)) == ("ab", [b"a", b"<|im_start|>", b"b"])


def test_choice_scores_of_half_a_character_come_at_the_end() -> None:
    subject = choice(with_scores=True)
    assert scored(subject.feed(event("ü".encode()[:1]))) == []
    assert scored(subject.feed(event([END], STOP))) == ["ü".encode()[:1]]
