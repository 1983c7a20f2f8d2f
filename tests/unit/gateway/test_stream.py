"""Server-sent events: their order, their form, and a client that stops reading."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message, Scope

from helpers.eventually import eventually
from services.common.errors import WorkerLost
from services.gateway.stream import CLIENT_GONE, ClientGone, EventStream, frame, unless_gone

SCOPE: Scope = {"type": "http", "method": "POST", "path": "/"}


class Connection:
    """A client's side of ASGI; it stays until told to leave."""

    def __init__(self, *, reads: bool = True) -> None:
        self.sent: list[Message] = []
        self.left = asyncio.Event()
        self._reads = reads

    async def receive(self) -> Message:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        if not self._reads and message["type"] == "http.response.body":
            await asyncio.Event().wait()

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()


def stream(events: AsyncGenerator[bytes, None], *, stall_seconds: float = 10) -> EventStream:
    return EventStream(events, headers={"X-Request-Id": "r"}, stall_seconds=stall_seconds)


async def failing(*, after: int) -> AsyncGenerator[bytes, None]:
    for _ in range(after):
        yield b"data: {}\n\n"
    raise WorkerLost("a worker is gone")


async def endless(closed: asyncio.Event) -> AsyncGenerator[bytes, None]:
    try:
        yield b"data: {}\n\n"
        await asyncio.Event().wait()
    finally:
        closed.set()


def test_frame_is_one_line_whatever_the_text() -> None:
    made = frame({"text": "a\nb\r\n\u2028 ü"})
    assert made.startswith(b"data: {")
    assert made.endswith(b"}\n\n")
    assert made.count(b"\n") == 2
    assert json.loads(made.removeprefix(b"data: ")) == {"text": "a\nb\r\n\u2028 ü"}


async def test_stream_failure_before_the_headers_is_raised() -> None:
    connection = Connection()
    with pytest.raises(WorkerLost):
        await stream(failing(after=0))(SCOPE, connection.receive, connection.send)
    assert connection.sent == []


async def test_stream_failure_after_the_headers_is_the_last_event() -> None:
    connection = Connection()
    await stream(failing(after=1))(SCOPE, connection.receive, connection.send)
    start = connection.sent[0]
    assert start["status"] == 200
    assert (b"x-request-id", b"r") in start["headers"]
    last = connection.text.rstrip().rpartition("data: ")[2]
    assert json.loads(last)["error"]["message"] == "a worker is gone"
    assert connection.sent[-1] == {
        "type": "http.response.body",
        "body": b"",
        "more_body": False,
    }


async def test_stream_ends_its_events_when_the_client_leaves() -> None:
    connection, closed = Connection(), asyncio.Event()
    scope = dict(SCOPE)
    running = asyncio.create_task(
        stream(endless(closed))(scope, connection.receive, connection.send)
    )
    await eventually(lambda: bool(connection.sent))
    connection.left.set()
    await running
    assert scope[CLIENT_GONE] is True
    assert closed.is_set()


async def test_stream_gives_up_a_client_that_stops_reading() -> None:
    connection, closed = Connection(reads=False), asyncio.Event()
    scope = dict(SCOPE)
    await stream(endless(closed), stall_seconds=0.01)(scope, connection.receive, connection.send)
    assert closed.is_set()
    assert scope[CLIENT_GONE] is True


async def test_work_is_cancelled_when_the_client_leaves() -> None:
    connection, cancelled = Connection(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    connection.left.set()
    with pytest.raises(ClientGone):
        await unless_gone(connection.receive, work())
    assert cancelled.is_set()


async def test_work_that_ends_first_gives_its_result() -> None:
    async def work() -> int:
        return 7

    assert await unless_gone(Connection().receive, work()) == 7
