"""What the gateway refuses, and how failures and limits look to the official OpenAI client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletionChunk

from helpers.qwen_template import QWEN
from helpers.running_gateway import RunningGateway, running_gateway
from helpers.text_model import write_text_model
from services.common.errors import InvalidRequest, Overloaded, WorkerLost

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def narrow(tiny_model: Path) -> AsyncIterator[RunningGateway]:
    """A gateway whose limits are small."""
    async with running_gateway(
        tiny_model,
        context_tokens_max=32,
        requests_max=1,
        body_bytes_max=2000,
        choices_max=3,
        keepalive_seconds=0.05,
    ) as running:
        yield running


async def chat_chunks(served: RunningGateway, **options: object) -> list[ChatCompletionChunk]:
    stream = await served.client.chat.completions.create(  # type: ignore[call-overload]
        model=served.model, messages=[{"role": "user", "content": "hi"}], stream=True, **options
    )
    return [chunk async for chunk in stream]


# Refusals and failures -------------------------------------------------------------------------


async def test_bad_field_is_a_bad_request(served: RunningGateway) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await served.client.completions.create(model=served.model, prompt="a", temperature=3)
    assert caught.value.param == "temperature"
    assert caught.value.type == "invalid_request_error"
    assert not served.scheduler.requests


async def test_unknown_model_is_not_found(served: RunningGateway) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await served.client.completions.create(model="other", prompt="a")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        await served.client.models.retrieve("other")


async def test_models_name_the_served_one(served: RunningGateway) -> None:
    models = [model.id async for model in served.client.models.list()]
    assert models == [served.model]
    assert (await served.client.models.retrieve(served.model)).id == served.model


async def test_token_beyond_the_vocabulary_is_refused(served: RunningGateway) -> None:
    beyond = served.scheduler.vocab_size
    with pytest.raises(openai.BadRequestError, match="vocabulary") as caught:
        await served.client.completions.create(model=served.model, prompt=[beyond])
    assert caught.value.param == "prompt"
    with pytest.raises(openai.BadRequestError, match="vocabulary") as caught:
        await served.client.completions.create(
            model=served.model, prompt="a", logit_bias={str(beyond): 1}
        )
    assert caught.value.param == "logit_bias"


async def test_full_scheduler_is_a_rate_limit_with_retry_after(served: RunningGateway) -> None:
    served.scheduler.refusal = Overloaded("the queue is full", retry_after_ms=2500)
    with pytest.raises(openai.RateLimitError) as caught:
        await chat_chunks(served)
    assert caught.value.response.headers["Retry-After"] == "3"
    assert "queue is full" in caught.value.message


async def test_refusal_by_the_scheduler_names_the_field(served: RunningGateway) -> None:
    served.scheduler.refusal = InvalidRequest("no such thing", param="top_k")
    with pytest.raises(openai.BadRequestError) as caught:
        await served.client.completions.create(model=served.model, prompt="a")
    assert caught.value.param == "top_k"


async def test_failure_in_a_stream_is_its_last_event(served: RunningGateway) -> None:
    served.scheduler.hold_after, served.scheduler.failure = 3, WorkerLost("a worker is gone")
    body = {"model": served.model, "prompt": "abcdef", "max_tokens": 6, "stream": True}
    async with httpx.AsyncClient() as http:
        reply = await http.post(f"{served.url}/v1/completions", json=body)
    frames = reply.text.strip().split("\n\n")
    assert reply.status_code == 200
    error = json.loads(frames[-1].removeprefix("data: "))["error"]
    assert "a worker is gone" in error["message"]
    assert "[DONE]" not in reply.text


async def test_failure_in_a_stream_raises_in_the_client(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("Good day.")
    served.scheduler.hold_after, served.scheduler.failure = 1, WorkerLost("a worker is gone")
    with pytest.raises(openai.APIError, match="a worker is gone"):
        await chat_chunks(served, max_tokens=5)


async def test_failure_before_a_whole_reply_is_a_bad_gateway(served: RunningGateway) -> None:
    served.scheduler.hold_after, served.scheduler.failure = 1, WorkerLost("a worker is gone")
    with pytest.raises(openai.InternalServerError) as caught:
        await served.client.completions.create(model=served.model, prompt="abc", max_tokens=5)
    assert caught.value.status_code == 502


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", b"", 404),
        ("GET", "/v1/completions", b"", 405),
        ("POST", "/v1/completions", b"{", 400),
        ("POST", "/v1/chat/completions", b"[]", 400),
    ],
)
async def test_every_refusal_has_the_openai_shape(
    served: RunningGateway, method: str, path: str, body: bytes, status: int
) -> None:
    async with httpx.AsyncClient() as http:
        reply = await http.request(method, served.url + path, content=body)
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


async def test_model_without_a_template_cannot_chat(tmp_path: Path) -> None:
    model = write_text_model(tmp_path / "base.gguf", template=None)
    async with running_gateway(model) as base:
        with pytest.raises(openai.BadRequestError, match="no chat template") as caught:
            await chat_chunks(base)
        assert caught.value.param == "messages"


async def test_template_refusal_is_a_bad_request(tmp_path: Path) -> None:
    model = write_text_model(
        tmp_path / "strict.gguf", template="{{ raise_exception('roles must alternate') }}"
    )
    async with running_gateway(model) as strict:
        with pytest.raises(openai.BadRequestError, match="roles must alternate"):
            await chat_chunks(strict)


async def test_reasoning_effort_goes_to_a_template_that_knows_it(tmp_path: Path) -> None:
    async with running_gateway(write_text_model(tmp_path / "m.gguf", template=QWEN)) as qwen:
        for effort in ("low", "medium"):
            await chat_chunks(qwen, reasoning_effort=effort)
        short, none = (len(request.prompt_tokens) for request in qwen.scheduler.requests)
        assert short > none  # `low` writes a sentence, `medium` nothing
        with pytest.raises(openai.BadRequestError, match="unknown reasoning_effort minimal"):
            await chat_chunks(qwen, reasoning_effort="minimal")


async def test_reasoning_effort_is_refused_when_the_template_knows_none(
    served: RunningGateway,
) -> None:
    with pytest.raises(openai.BadRequestError, match="knows no 'reasoning_effort'") as caught:
        await chat_chunks(served, reasoning_effort="low")
    assert caught.value.param == "reasoning_effort"


# Limits ----------------------------------------------------------------------------------------


async def test_context_length_is_a_bad_request(narrow: RunningGateway) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await narrow.client.completions.create(model=narrow.model, prompt=[1] * 32)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as caught:
        await narrow.client.completions.create(model=narrow.model, prompt=[1] * 30, max_tokens=3)
    assert caught.value.code == "context_length_exceeded"
    reply = await narrow.client.completions.create(
        model=narrow.model, prompt=[1] * 30, max_tokens=2
    )
    assert reply.choices[0].finish_reason == "length"


@pytest.mark.parametrize("announced", [True, False])
async def test_large_body_is_refused(narrow: RunningGateway, announced: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"x" * 2001

    content = b"x" * 2001 if announced else parts()
    async with httpx.AsyncClient() as http:
        reply = await http.post(f"{narrow.url}/v1/completions", content=content)
    assert reply.status_code == 413
    assert "2000 bytes" in reply.json()["error"]["message"]


async def test_too_many_choices_are_refused(narrow: RunningGateway) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await narrow.client.completions.create(model=narrow.model, prompt=["a", "b"], n=2)
    assert caught.value.param == "n"


async def test_full_gateway_is_a_rate_limit(narrow: RunningGateway) -> None:
    narrow.scheduler.hold_after = 1
    stream = await narrow.client.completions.create(
        model=narrow.model, prompt="abc", max_tokens=2, stream=True
    )
    with pytest.raises(openai.RateLimitError) as caught:
        await narrow.client.completions.create(model=narrow.model, prompt="a", max_tokens=1)
    assert int(caught.value.response.headers["Retry-After"]) >= 1
    narrow.scheduler.gate.set()
    assert [chunk.choices[0].finish_reason async for chunk in stream][-1] == "length"


async def test_waiting_stream_is_kept_alive(narrow: RunningGateway) -> None:
    narrow.scheduler.hold_after = 0
    body = {"model": narrow.model, "prompt": "abc", "max_tokens": 2, "stream": True}
    async with (
        httpx.AsyncClient() as http,
        http.stream("POST", f"{narrow.url}/v1/completions", json=body) as reply,
    ):
        lines = reply.aiter_lines()
        assert [await anext(lines) for _ in range(4)] == [": keep-alive", ""] * 2
        narrow.scheduler.gate.set()
        rest = [line async for line in lines]
    assert rest[-2:] == ["data: [DONE]", ""]
