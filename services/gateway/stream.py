"""A reply as server-sent events, and what happens when its client leaves.

`app` returns an `EventStream` for a streamed request. Path of one stream:
1. Wait for the first piece. A failure before it is an ordinary error response.
2. Send the headers; after `keepalive_seconds` without a piece they go out anyway, and a comment
   line follows at that interval for as long as nothing else is sent.
3. Per choice: an opening chunk, chunks of text, a closing chunk. Then the usage if asked for, and
   `[DONE]`.
4. A failure after the headers is sent as an error frame that ends the stream, without `[DONE]`.
The client's leaving cancels the choices at once, at any of these points.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.gateway.failures import as_api_error
from services.gateway.fanout import Fanout
from services.gateway.pieces import Piece
from services.gateway.responses import Json, Reply

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
CLIENT_GONE = "lamina.client_gone"  # set in the scope of a stream whose client left

T = TypeVar("T")


class ClientGone(Exception):
    """The client left, or stopped reading, before the end of its answer."""


def frame(payload: Json) -> bytes:
    """One event. JSON escapes line ends, so a payload is always one line."""
    return (
        b"data: "
        + json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
        + b"\n\n"
    )


async def frames(
    fanout: Fanout,
    reply: Reply,
    *,
    see: Callable[[Piece], None],
    keepalive_seconds: float,
) -> AsyncGenerator[bytes, None]:
    """The events of a stream in order. Raises what ends `fanout` early."""
    opened: set[int] = set()
    while not fanout.finished:
        piece = await fanout.next(keepalive_seconds)
        if piece is None:
            yield KEEP_ALIVE
            continue
        see(piece)
        chunks: list[Json | None] = []
        if piece.choice not in opened:
            opened.add(piece.choice)
            chunks.append(reply.opening(piece.choice))
        if piece.text or piece.scores:
            chunks.append(reply.chunk(piece))
        if piece.finish is not None:
            chunks.append(reply.closing(piece.choice, piece.finish))
        if events := b"".join(frame(chunk) for chunk in chunks if chunk is not None):
            yield events
    if reply.head.with_usage:
        yield frame(reply.usage_chunk(fanout.usage()))
    yield DONE


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client leaves. Raises ClientGone."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(_disconnect(receive))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return await working
    finally:
        working.cancel()
        watching.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Sends the frames of one stream; owns nothing but the order of sending."""

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        headers: Mapping[str, str],
        stall_seconds: float,
    ) -> None:
        super().__init__(
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no", **headers}
        )
        del self.headers["Content-Length"]
        self._events = events
        self._stall_seconds = stall_seconds
        self._begun = False  # headers are out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises what goes wrong before the headers. Later, a client that leaves is only noted."""
        async with aclosing(self._events):
            try:
                await unless_gone(receive, self._send_all(send))
            except ClientGone:
                if not self._begun:
                    raise
                scope[CLIENT_GONE] = True

    async def _send_all(self, send: Send) -> None:
        first = await anext(self._events)
        self._begun = True
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        await self._send(send, first)
        try:
            async for events in self._events:
                await self._send(send, events)
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001  outermost: the last thing a client hears
            await self._send(send, frame(as_api_error(error).body()))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, events: bytes) -> None:
        try:
            async with asyncio.timeout(self._stall_seconds):
                await send({"type": "http.response.body", "body": events, "more_body": True})
        except TimeoutError as error:
            raise ClientGone from error
