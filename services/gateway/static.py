"""The chat page: a few files of this package, read once and served from memory.

`app` mounts the routes. The page may load nothing but itself, and talk to nothing but this server.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_MEDIA_TYPES = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "stream.js": "text/javascript",
    "markdown.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageFile:
    """One file of the page, as a route endpoint."""

    def __init__(self, name: str) -> None:
        self._content = files("services.gateway").joinpath("page", name).read_bytes()
        self._media_type = _MEDIA_TYPES[name]
        self._tag = f'"{hashlib.sha256(self._content).hexdigest()[:32]}"'

    async def respond(self, request: Request) -> Response:
        """The file, or 304 if the browser has it."""
        headers = {**_HEADERS, "ETag": self._tag}
        if request.headers.get("If-None-Match") == self._tag:
            return Response(status_code=304, headers=headers)
        return Response(self._content, media_type=self._media_type, headers=headers)


def page_routes() -> list[Route]:
    """`/` and the files it refers to under `/page/`."""
    routes = [Route("/", PageFile("index.html").respond)]
    return routes + [
        Route(f"/page/{name}", PageFile(name).respond)
        for name in _MEDIA_TYPES
        if name != "index.html"
    ]
