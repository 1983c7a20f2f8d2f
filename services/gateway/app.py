"""The HTTP face of a gateway: routes, body limits, and every failure in one shape.

`__main__` serves what `build` returns. Routes parse and hand on to `generation`; whatever they
raise becomes the OpenAI error body here, unless a stream has begun (`stream` ends that itself).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from fastapi import Depends, FastAPI
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.common.errors import ServiceError
from services.gateway.failures import ApiError, as_api_error, unknown_model
from services.gateway.gateway import Gateway
from services.gateway.generation import Answer
from services.gateway.requests import parse_chat, parse_completion
from services.gateway.static import page_routes
from services.gateway.stream import CLIENT_GONE, ClientGone

PARSE_INLINE_BYTES_MAX = 256 * 1024  # a millisecond or so; larger bodies are parsed on a thread
STATUS_CLIENT_GONE = 499  # nginx's number for a client that left before its answer

T = TypeVar("T")


def build(gateway: Gateway) -> FastAPI:
    """The application of one gateway."""
    app = FastAPI(title="Lamina", openapi_url=None, docs_url=None, redoc_url=None)
    _add_generation(app, gateway)
    _add_facts(app, gateway)
    app.router.routes.extend(page_routes())
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(ServiceError, _api_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(ClientGone, _client_gone)
    app.add_exception_handler(ClientDisconnect, _client_gone)
    app.add_exception_handler(Exception, _api_error)
    app.add_middleware(Counting, gateway=gateway)
    return app


def _add_generation(app: FastAPI, gateway: Gateway) -> None:
    async def admitted() -> AsyncIterator[None]:
        with gateway.admitted():
            yield  # until the response has been sent, streamed or not

    @app.post("/v1/chat/completions", dependencies=[Depends(admitted)])
    async def chat_completions(http: Request) -> Response:
        request = await _parsed(http, parse_chat, gateway)
        return await Answer(gateway, request).respond(http)

    @app.post("/v1/completions", dependencies=[Depends(admitted)])
    async def completions(http: Request) -> Response:
        request = await _parsed(http, parse_completion, gateway)
        return await Answer(gateway, request).respond(http)


def _add_facts(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/health")
    async def health() -> Response:
        reason = gateway.not_ready_reason
        if reason is None:
            return JSONResponse({"status": "ok"})
        body = {"code": 503, "message": reason, "type": "unavailable_error"}
        return JSONResponse({"error": body}, status_code=503)

    @app.get("/v1/models")
    async def models() -> Response:
        return JSONResponse({"object": "list", "data": [gateway.model_body()]})

    @app.get("/v1/models/{name:path}")
    async def model(name: str) -> Response:
        if name != gateway.model_id:
            raise unknown_model(name, gateway.model_id)
        return JSONResponse(gateway.model_body())

    @app.get("/metrics")
    async def metrics() -> Response:
        text = generate_latest(gateway.metrics.registry)
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _parsed(http: Request, parse: Callable[[bytes], T], gateway: Gateway) -> T:
    """The body, parsed. Raises ApiError, ClientDisconnect."""
    limit = gateway.config.body_bytes_max
    too_large = ApiError(413, f"The request body is larger than {limit} bytes.")
    if int(http.headers.get("Content-Length", "0")) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(gateway.config.body_seconds_max):
            async for part in http.stream():
                body += part
                if len(body) > limit:
                    raise too_large
    except TimeoutError as error:
        raise ApiError(408, "The request body did not arrive in time.") from error
    if len(body) > PARSE_INLINE_BYTES_MAX:
        return await asyncio.to_thread(parse, bytes(body))
    return parse(bytes(body))


async def _api_error(_request: Request, error: Exception) -> Response:
    answer = as_api_error(error)
    return JSONResponse(answer.body(), status_code=answer.status, headers=answer.headers())


async def _http_error(request: Request, error: Exception) -> Response:
    """404 and 405 of the router, in our shape."""
    assert isinstance(error, HTTPException)
    answer = ApiError(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")
    return JSONResponse(answer.body(), status_code=answer.status, headers=error.headers)


async def _client_gone(_request: Request, _error: Exception) -> Response:
    """Nobody reads this; it tells `Counting` what happened."""
    return Response(status_code=STATUS_CLIENT_GONE)


class Counting:
    """Counts answers by endpoint and status; paths that are no route count as `other`."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._metrics = gateway.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if scope.get(CLIENT_GONE):
                status = STATUS_CLIENT_GONE
            route = scope.get("route")
            endpoint = getattr(route, "path", "other")
            self._metrics.requests.labels(endpoint, str(status)).inc()
            if status == STATUS_CLIENT_GONE:
                self._metrics.cancelled.inc()
