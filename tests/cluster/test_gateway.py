"""The gateway over real HTTP and gRPC: the official OpenAI client, 64 streams, leaving clients."""

from __future__ import annotations

import asyncio
import json

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from helpers.eventually import eventually
from helpers.running_gateway import RunningGateway
from services.common.errors import WorkerLost

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def chat_chunks(served: RunningGateway, **options: object) -> list[ChatCompletionChunk]:
    stream = await served.client.chat.completions.create(  # type: ignore[call-overload]
        model=served.model, messages=[{"role": "user", "content": "hi"}], stream=True, **options
    )
    return [chunk async for chunk in stream]


# Replies ---------------------------------------------------------------------------------------


async def test_chat_reply_is_whole(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("Good day.")
    reply = await served.client.chat.completions.create(
        model=served.model, messages=[{"role": "user", "content": "hi"}]
    )
    choice = reply.choices[0]
    assert (choice.message.role, choice.message.content) == ("assistant", "Good day.")
    assert choice.finish_reason == "stop"
    prompt = served.scheduler.requests[0].prompt_tokens
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len(prompt)
    assert reply.usage.completion_tokens == len(served.ids("Good day.")) + 1
    assert reply.usage.prompt_tokens_details is not None
    assert reply.usage.prompt_tokens_details.cached_tokens == len(prompt) // 2


async def test_chat_default_max_tokens_fill_the_context(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("x")
    await served.client.chat.completions.create(
        model=served.model, messages=[{"role": "user", "content": "hi"}]
    )
    request = served.scheduler.requests[0]
    assert request.max_tokens + len(request.prompt_tokens) == served.scheduler.context_tokens_max


async def test_chat_stream_has_role_text_and_finish_in_order(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("Good day.")
    chunks = await chat_chunks(served)
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert {chunk.created for chunk in chunks} == {chunks[0].created}
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Good day."
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert chunks[-1].choices[0].delta.content is None


async def test_stream_frames_end_with_done(served: RunningGateway) -> None:
    body = {"model": served.model, "prompt": "abc", "max_tokens": 3, "stream": True}
    async with httpx.AsyncClient() as http:
        reply = await http.post(f"{served.url}/v1/completions", json=body)
    frames = reply.text.split("\n\n")
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert all(frame.startswith("data: ") for frame in frames[:-1])
    assert frames[-2:] == ["data: [DONE]", ""]
    assert "usage" not in json.loads(frames[0].removeprefix("data: "))


async def test_stream_usage_comes_last_without_choices(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("Good day.")
    chunks = await chat_chunks(served, stream_options={"include_usage": True})
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == len(served.ids("Good day.")) + 1


async def test_completion_continues_each_prompt(served: RunningGateway) -> None:
    prompts = [served.ids("one two"), served.ids("three")]
    reply = await served.client.completions.create(
        model=served.model, prompt=prompts, max_tokens=7, seed=0
    )
    assert [choice.text for choice in reply.choices] == [
        served.cycled(prompts[0], seed=0, count=7),
        served.cycled(prompts[1], seed=1, count=7),
    ]
    assert [choice.finish_reason for choice in reply.choices] == ["length", "length"]
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == len(prompts[0]) + len(prompts[1])
    assert reply.usage.completion_tokens == 14


async def test_completion_echoes_the_prompt(served: RunningGateway) -> None:
    prompt = served.ids("one two")
    reply = await served.client.completions.create(
        model=served.model, prompt=prompt, max_tokens=2, seed=0, echo=True
    )
    assert reply.choices[0].text == "one two" + served.cycled(prompt, seed=0, count=2)


async def test_choices_draw_with_consecutive_seeds(served: RunningGateway) -> None:
    prompt = served.ids("one two three")
    stream = await served.client.completions.create(
        model=served.model, prompt=prompt, max_tokens=6, n=2, seed=5, stream=True
    )
    texts = {0: "", 1: ""}
    async for chunk in stream:
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == {
        0: served.cycled(prompt, seed=5, count=6),
        1: served.cycled(prompt, seed=6, count=6),
    }


async def test_n_choices_count_their_prompt_once(served: RunningGateway) -> None:
    prompt = served.ids("one two three")
    reply = await served.client.completions.create(
        model=served.model, prompt=prompt, max_tokens=2, n=3
    )
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (len(prompt), 6)


async def test_seed_is_random_unless_given(served: RunningGateway) -> None:
    for _ in range(2):
        await served.client.completions.create(model=served.model, prompt="a", max_tokens=1)
    first, second = served.scheduler.requests
    assert first.sampling.seed != second.sampling.seed


async def test_sampling_reaches_the_scheduler(served: RunningGateway) -> None:
    await served.client.completions.create(
        model=served.model,
        prompt="a",
        max_tokens=1,
        temperature=0.5,
        top_p=0.25,
        presence_penalty=1.5,
        frequency_penalty=-1.5,
        seed=-1,
        logit_bias={"3": -100},
        logprobs=0,
        extra_body={"top_k": 7, "min_p": 0.125, "repetition_penalty": 1.25, "ignore_eos": True},
    )
    request = served.scheduler.requests[0]
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 7, 0.25)
    assert (sampling.min_p, sampling.repetition_penalty) == (0.125, 1.25)
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (1.5, -1.5)
    assert sampling.seed == 2**64 - 1
    assert dict(sampling.logit_bias) == {3: -100}
    assert sampling.HasField("logprobs")
    assert sampling.logprobs == 0
    assert list(request.stop_tokens) == []


# Stop strings and scores -----------------------------------------------------------------------


@pytest.mark.parametrize("tokens_per_event", [1, 3])
async def test_stop_string_across_tokens_ends_the_request(
    served: RunningGateway, tokens_per_event: int
) -> None:
    assert len(served.ids("<END>")) > 1
    served.scheduler.script = served.saying("Good day.<END> never seen" * 9)
    served.scheduler.tokens_per_event = tokens_per_event
    chunks = await chat_chunks(served, stop=["<END>", "unused"])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Good day."
    assert chunks[-1].choices[0].finish_reason == "stop"
    await eventually(lambda: not served.scheduler.running)


async def test_stop_string_cancels_the_rest(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("Good day.<END> never seen")
    served.scheduler.hold_after = len(served.ids("Good day.<END>"))
    reply = await served.client.chat.completions.create(
        model=served.model, messages=[{"role": "user", "content": "hi"}], stop="<END>"
    )
    assert reply.choices[0].message.content == "Good day."
    request_id = served.scheduler.requests[0].request_id
    await eventually(lambda: request_id in served.scheduler.cancelled)


async def test_beginning_of_a_stop_string_is_released_when_it_is_none(
    served: RunningGateway,
) -> None:
    served.scheduler.script = served.saying("Good <EN day <E")
    chunks = await chat_chunks(served, stop="<END>")
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Good <EN day <E"


async def test_chat_scores_match_the_text(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("Good day.")
    chunks = await chat_chunks(served, logprobs=True, top_logprobs=2)
    scores = [
        score
        for chunk in chunks
        if chunk.choices[0].logprobs is not None
        for score in chunk.choices[0].logprobs.content or []
    ]
    assert "".join(score.token for score in scores) == "Good day."
    assert [score.logprob for score in scores[:5]] == [-0.125, -0.25, -0.375, -0.5, -0.125]
    best = scores[0].top_logprobs
    assert next((each.token, each.logprob) for each in best) == (scores[0].token, -0.125)
    assert best[1].logprob == -1.125
    assert bytes(scores[0].bytes or []).decode() == scores[0].token


async def test_scores_leave_out_the_stop_string(served: RunningGateway) -> None:
    served.scheduler.script = served.saying("Good day.<END>")
    reply = await served.client.chat.completions.create(
        model=served.model,
        messages=[{"role": "user", "content": "hi"}],
        logprobs=True,
        stop="<END>",
    )
    scores = reply.choices[0].logprobs
    assert scores is not None
    assert scores.content is not None
    assert "".join(score.token for score in scores.content).startswith("Good day.")
    assert "END" not in "".join(score.token for score in scores.content)


async def test_completion_scores_have_offsets(served: RunningGateway) -> None:
    prompt = served.ids("one two three")
    reply = await served.client.completions.create(
        model=served.model, prompt=prompt, max_tokens=4, seed=0, logprobs=2
    )
    scores = reply.choices[0].logprobs
    assert scores is not None
    assert scores.tokens is not None
    assert scores.text_offset is not None
    assert "".join(scores.tokens) == reply.choices[0].text
    ends = [*scores.text_offset[1:], len(reply.choices[0].text)]
    for start, end, token in zip(scores.text_offset, ends, scores.tokens, strict=True):
        assert reply.choices[0].text[start:end] == token


# Leaving clients -------------------------------------------------------------------------------


async def test_leaving_a_stream_cancels_the_request(served: RunningGateway) -> None:
    served.scheduler.hold_after = 2
    cancelled = served.counter("lamina_gateway_cancelled_total")
    stream = await served.client.completions.create(
        model=served.model, prompt="abcdef", max_tokens=6, stream=True, n=2
    )
    await anext(aiter(stream))
    await stream.close()
    await eventually(lambda: len(served.scheduler.cancelled) == 2)
    await eventually(lambda: served.counter("lamina_gateway_requests_open") == 0)
    assert served.counter("lamina_gateway_cancelled_total") == cancelled + 1


async def test_leaving_before_a_whole_reply_cancels_the_request(served: RunningGateway) -> None:
    served.scheduler.hold_after = 0
    asking = asyncio.create_task(
        served.client.completions.create(model=served.model, prompt="abc", max_tokens=5)
    )
    await eventually(lambda: len(served.scheduler.running) == 1)
    asking.cancel()
    await eventually(lambda: len(served.scheduler.cancelled) == 1)
    await eventually(lambda: served.counter("lamina_gateway_requests_open") == 0)


async def test_failure_of_one_choice_cancels_the_others(served: RunningGateway) -> None:
    served.scheduler.hold_after = 1
    served.scheduler.failing_index = 1
    served.scheduler.failure = WorkerLost("a worker is gone")
    with pytest.raises(openai.InternalServerError):
        await served.client.completions.create(model=served.model, prompt="abc", n=3, max_tokens=4)
    await eventually(lambda: len(served.scheduler.cancelled) == 2)


# Load and health -------------------------------------------------------------------------------


async def test_sixty_four_streams_are_each_right(served: RunningGateway) -> None:
    async def stream_one(number: int) -> tuple[str, str]:
        prompt = served.ids(f"stream number {number} has its own words")
        stream = await served.client.completions.create(
            model=served.model, prompt=prompt, max_tokens=40, seed=number, stream=True
        )
        text = "".join([chunk.choices[0].text async for chunk in stream])
        return text, served.cycled(prompt, seed=number, count=40)

    results = await asyncio.gather(*(stream_one(number) for number in range(64)))
    assert len({text for text, _ in results}) == 64
    for text, expected in results:
        assert text == expected


async def test_metrics_count_tokens_and_times(served: RunningGateway) -> None:
    names = [
        "lamina_gateway_completion_tokens_total",
        "lamina_gateway_prompt_tokens_total",
        "lamina_gateway_time_to_first_token_seconds_count",
        "lamina_gateway_inter_token_latency_seconds_count",
        "lamina_gateway_e2e_request_latency_seconds_count",
    ]
    before = [served.counter(name) for name in names]
    await served.client.completions.create(model=served.model, prompt=[1, 2, 3], max_tokens=5)
    after = [served.counter(name) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [5, 3, 1, 4, 1]
    async with httpx.AsyncClient() as http:
        text = (await http.get(f"{served.url}/metrics")).text
    assert 'lamina_gateway_requests_total{endpoint="/v1/completions",status="200"}' in text


async def test_health_follows_the_scheduler(served: RunningGateway) -> None:
    async with httpx.AsyncClient(base_url=served.url) as http:
        assert (await http.get("/health")).json() == {"status": "ok"}
        await served.scheduler.set_serving(False)
        await eventually(lambda: served.gateway.not_ready_reason is not None)
        reply = await http.get("/health")
        assert reply.status_code == 503
        assert reply.json()["error"]["type"] == "unavailable_error"
        with pytest.raises(openai.InternalServerError) as caught:
            await served.client.completions.create(model=served.model, prompt="a")
        assert caught.value.status_code == 503
        await served.scheduler.set_serving(True)
        await eventually(lambda: served.gateway.not_ready_reason is None)
        assert (await http.get("/health")).status_code == 200
