"""Choices side by side: order, bounds, ends and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

import pytest

from helpers.eventually import eventually
from helpers.text_metadata import tiny_tokenizer
from services.common.errors import Draining, WorkerLost
from services.gateway.choice import Choice
from services.gateway.fanout import PIECES_MAX, Fanout, Job, collect
from services.gateway.pieces import Piece
from services.pb import common_pb2, scheduler_pb2

TOKENIZER = tiny_tokenizer()  # ids are bytes


class Source:
    """A scheduler's side: events written by hand, and what became of the calls."""

    def __init__(self, *events: scheduler_pb2.SubmitEvent) -> None:
        self.events = events
        self.num_read = 0
        self.num_closed = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def submit(
        self, _request: scheduler_pb2.SubmitRequest
    ) -> AsyncGenerator[scheduler_pb2.SubmitEvent, None]:
        try:
            await self.gate.wait()
            for event in self.events:
                self.num_read += 1
                yield event
        finally:
            self.num_closed += 1


def token(letter: str) -> scheduler_pb2.SubmitEvent:
    return scheduler_pb2.SubmitEvent(tokens=[common_pb2.Token(id=ord(letter))])


def end() -> scheduler_pb2.SubmitEvent:
    return scheduler_pb2.SubmitEvent(
        finish=scheduler_pb2.Finish(reason=scheduler_pb2.FINISH_REASON_LENGTH, cached_tokens=1)
    )


def fanout(source: Source, *, choices: int = 1, per_prompt: int = 1) -> Fanout:
    jobs = [
        Job(
            choice=Choice(index, tokenizer=TOKENIZER, num_prompt_tokens=5),
            request=scheduler_pb2.SubmitRequest(request_id=f"r/{index}"),
        )
        for index in range(choices)
    ]
    return Fanout(jobs, source.submit, choices_per_prompt=per_prompt)


def ignore(_piece: Piece) -> None:
    """Sees nothing."""


async def test_fanout_collects_every_choice() -> None:
    seen: list[Piece] = []
    see: Callable[[Piece], None] = seen.append
    async with fanout(Source(token("a"), token("b"), end()), choices=2) as running:
        wholes = await collect(running, see)
    assert [(whole.text, whole.finish) for whole in wholes] == [("ab", "length")] * 2
    assert sum(piece.num_tokens for piece in seen) == 4


async def test_fanout_usage_counts_a_prompt_once() -> None:
    async with fanout(Source(token("a"), end()), choices=4, per_prompt=2) as running:
        await collect(running, ignore)
        usage = running.usage()
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (10, 2, 4)


async def test_fanout_says_when_nothing_came_in_time() -> None:
    source = Source(token("a"), end())
    source.gate.clear()
    async with fanout(source) as running:
        assert await running.next(timeout_seconds=0.001) is None
        source.gate.set()
        piece = await running.next(timeout_seconds=10)
        assert piece is not None
        assert piece.text == "a"


async def test_fanout_reads_no_further_than_its_bound() -> None:
    source = Source(*[token("a")] * (4 * PIECES_MAX), end())
    async with fanout(source) as running:
        await eventually(lambda: source.num_read == PIECES_MAX + 1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert source.num_read == PIECES_MAX + 1
        assert len((await collect(running, ignore))[0].text) == 4 * PIECES_MAX


async def test_fanout_closes_its_calls_when_left_early() -> None:
    source = Source(*[token("a")] * (4 * PIECES_MAX))
    async with fanout(source, choices=3) as running:
        await running.next()
    assert source.num_closed == 3


async def test_fanout_failure_comes_after_the_pieces_before_it() -> None:
    async with fanout(Source(token("a"))) as running:  # ends without a last event
        piece = await running.next()
        assert piece is not None
        assert piece.text == "a"
        with pytest.raises(WorkerLost, match="before its last event"):
            await running.next()


async def test_fanout_can_be_told_to_fail() -> None:
    source = Source()
    source.gate.clear()
    async with fanout(source) as running:
        running.fail(Draining("enough"))
        with pytest.raises(Draining, match="enough"):
            await running.next()


async def test_fanout_told_to_fail_does_not_wait_for_the_choices() -> None:
    source = Source(*[token("a")] * (4 * PIECES_MAX))
    async with fanout(source) as running:
        await running.next()
        running.fail(Draining("enough"))
        with pytest.raises(Draining, match="enough"):
            await collect(running, ignore)
    assert source.num_read <= PIECES_MAX + 2
    assert source.num_closed == 1
