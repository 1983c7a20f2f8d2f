"""The HTTP server under the application: one listening socket, uvicorn on this event loop.

`__main__` uses it. Signals are not uvicorn's here: the process decides when to stop listening.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

BACKLOG = 1024
IDLE_CONNECTION_SECONDS = 75  # longer than the 60 of common proxies, so they close first
CUT_SECONDS = 1  # for answers that were told to end, before their connections are cut


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the process's signal handlers alone."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    """Where a client on this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


@asynccontextmanager
async def serving(app: ASGIApp, listener: socket.socket) -> AsyncIterator[asyncio.Task[None]]:
    """Serve until the block ends; the task it yields ends early only if the server fails."""
    server = _Server(
        uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=IDLE_CONNECTION_SECONDS,
            timeout_graceful_shutdown=CUT_SECONDS,
        )
    )
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield running
    finally:
        server.should_exit = True
        await asyncio.gather(running)
