"""Answers the two generation endpoints: from a parsed request to a response.

Called by the routes in `app`. Path of a request:
1. Check the model's name and that the server is ready.
2. Template and tokenise, on a thread if the text is large.
3. Check limits and make one job per choice (`jobs`).
4. Run them (`fanout`), as a stream (`stream`) or to the end, watching for the client's leaving.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from services.gateway.failures import unknown_model
from services.gateway.fanout import Job, collect
from services.gateway.gateway import Gateway
from services.gateway.jobs import GenerationRequest, make_jobs
from services.gateway.metrics import Stopwatch
from services.gateway.requests import ChatCompletionRequest, CompletionRequest
from services.gateway.responses import ChatReply, CompletionReply, Head, Reply
from services.gateway.stream import EventStream, frames, unless_gone
from services.gateway.texts import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    jobs: Sequence[Job]
    reply: Reply


class Answer:
    """One generation request on its way to a response."""

    def __init__(self, gateway: Gateway, request: GenerationRequest) -> None:
        self._gateway = gateway
        self._request = request
        self._stopwatch = Stopwatch(gateway.metrics)
        chat = isinstance(request, ChatCompletionRequest)
        self._head = Head.new(
            "chatcmpl" if chat else "cmpl",
            gateway.model_id,
            with_usage=request.wants_usage_chunk,
        )

    async def respond(self, http: Request) -> Response:
        """The response to send. Raises ApiError, ServiceError, and ClientGone."""
        served = self._gateway.model_id
        if self._request.model not in (None, served):
            raise unknown_model(self._request.model, served)
        headers = {"X-Request-Id": self._head.id}
        if self._request.stream:
            return EventStream(
                self._events(), headers=headers, stall_seconds=self._gateway.config.stall_seconds
            )
        return JSONResponse(await unless_gone(http.receive, self._whole()), headers=headers)

    async def _whole(self) -> dict[str, object]:
        prepared = await self._prepare()
        async with self._gateway.fanout(prepared.jobs, self._request.n or 1) as fanout:
            choices = await collect(fanout, self._stopwatch.see)
            self._stopwatch.end(fanout.usage())
            return prepared.reply.whole(choices, fanout.usage())

    async def _events(self) -> AsyncGenerator[bytes, None]:
        with self._gateway.metrics.streams_open.track_inprogress():
            prepared = await self._prepare()
            async with self._gateway.fanout(prepared.jobs, self._request.n or 1) as fanout:
                async for events in frames(
                    fanout,
                    prepared.reply,
                    see=self._stopwatch.see,
                    keepalive_seconds=self._gateway.config.keepalive_seconds,
                ):
                    yield events
                self._stopwatch.end(fanout.usage())

    async def _prepare(self) -> _Prepared:
        request = self._request
        texts, facts = self._gateway.ready()
        if isinstance(request, ChatCompletionRequest):
            prompts = [await texts.encode_chat(request.messages, request.template_switches)]
        else:
            prompts = [await texts.encode_prompt(prompt) for prompt in request.prompt]
        jobs = make_jobs(
            request,
            prompts,
            request_id=self._head.id,
            random_seed=secrets.randbits(64),
            tokenizer=texts.tokenizer,
            facts=facts,
            choices_max=self._gateway.config.choices_max,
        )
        with_scores = request.top_logprobs_wanted is not None
        if isinstance(request, ChatCompletionRequest):
            return _Prepared(jobs=jobs, reply=ChatReply(self._head, with_scores))
        echoes = _echoes(request, texts)
        return _Prepared(jobs=jobs, reply=CompletionReply(self._head, with_scores, echoes))


def _echoes(request: CompletionRequest, texts: Texts) -> list[str]:
    """The prompt of each choice as text, if it is to be repeated."""
    if not request.echo:
        return []
    return [
        prompt if isinstance(prompt, str) else texts.decode(prompt)
        for prompt in request.prompt
        for _ in range(request.n or 1)
    ]
