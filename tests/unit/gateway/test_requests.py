"""Which request fields exist, what values they take, and what a refusal says."""

from __future__ import annotations

import json

import pytest

from services.gateway.failures import BadRequest
from services.gateway.requests import (
    ChatCompletionRequest,
    CompletionRequest,
    parse_chat,
    parse_completion,
)


def chat(**fields: object) -> ChatCompletionRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return parse_chat(json.dumps(body).encode())


def completion(**fields: object) -> CompletionRequest:
    return parse_completion(json.dumps({"model": "m", "prompt": "hi", **fields}).encode())


def refusal(call: object, **fields: object) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        call(**fields)  # type: ignore[operator]
    return caught.value


def test_chat_takes_every_served_field() -> None:
    request = chat(
        max_tokens=5,
        temperature=0,
        top_p=0.5,
        top_k=40,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=-2,
        frequency_penalty=2,
        seed=-1,
        stop=["a", "b"],
        n=2,
        logprobs=True,
        top_logprobs=20,
        logit_bias={"7": -100},
        stream=True,
        stream_options={"include_usage": True},
        chat_template_kwargs={"enable_thinking": False},
    )
    assert request.output_tokens_max == 5
    assert request.top_logprobs_wanted == 20
    assert request.stop == ("a", "b")
    assert request.logit_bias == {7: -100.0}
    assert request.wants_usage_chunk


def test_null_means_the_default() -> None:
    request = chat(temperature=None, stop=None, tools=None, logit_bias=None, response_format=None)
    assert request.temperature is None
    assert request.stop == ()
    assert request.logit_bias == {}


def test_max_completion_tokens_is_the_other_name_of_max_tokens() -> None:
    assert chat(max_completion_tokens=9).output_tokens_max == 9
    assert chat(max_completion_tokens=9, max_tokens=9).output_tokens_max == 9
    error = refusal(chat, max_completion_tokens=9, max_tokens=8)
    assert error.param == "max_completion_tokens"


@pytest.mark.parametrize(
    "name",
    ["user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"],
)
def test_harmless_fields_are_dropped(name: str) -> None:
    assert not hasattr(chat(**{name: "x"}), name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("best_of", 2),
        ("suffix", "x"),
        ("audio", {"voice": "x"}),
        ("modalities", ["text", "audio"]),
        ("tool_choice", "required"),
    ],
)
def test_unserved_fields_are_refused_by_name(name: str, value: object) -> None:
    error = refusal(chat, **{name: value})
    assert (error.status, error.param, error.code) == (400, name, "unsupported_parameter")
    assert name in error.message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tools", []),
        ("response_format", {"type": "text"}),
        ("best_of", 1),
        ("suffix", ""),
        ("modalities", ["text"]),
        ("tool_choice", "auto"),
    ],
)
def test_unserved_fields_pass_at_their_neutral_value(name: str, value: object) -> None:
    assert chat(**{name: value}).model == "m"


def test_true_is_not_the_neutral_value_one() -> None:
    assert refusal(completion, best_of=True).param == "best_of"


def test_unknown_fields_are_refused_by_name() -> None:
    error = refusal(chat, temprature=1)
    assert (error.param, error.code) == ("temprature", "unknown_parameter")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "0.5"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": -0.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"presence_penalty": 2.5}, "presence_penalty"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"seed": 2**64}, "seed"),
        ({"stop": 3}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"1": "2"}}, "logit_bias"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"every": 1}}, "stream_options.every"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "mood": 1}]}, "messages[0].mood"),
        *(
            ({"chat_template_kwargs": {name: []}}, f"chat_template_kwargs.{name}")
            for name in (
                *("self", "messages", "tools", "add_generation_prompt"),
                *("bos_token", "eos_token", "range", "raise_exception"),
            )
        ),
        (
            {"chat_template_kwargs": {"reasoning_effort": "low"}, "reasoning_effort": "low"},
            "reasoning_effort",
        ),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"chat_template_kwargs": [1]}, "chat_template_kwargs"),
    ],
)
def test_chat_refusal_names_the_field(fields: dict[str, object], param: str) -> None:
    error = refusal(chat, **fields)
    assert error.param == param
    assert param in error.message or param.rpartition(".")[2] in error.message


def test_missing_field_is_named() -> None:
    with pytest.raises(BadRequest) as caught:
        parse_chat(b'{"model": "m"}')
    assert caught.value.param == "messages"
    assert caught.value.code == "missing_required_parameter"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"a": NaN}', b"\xff", b"[" * 9999])
def test_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_chat(body)
    assert caught.value.code == "invalid_json"


def test_message_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = chat(messages=[{"role": "user", "content": parts}])
    assert request.messages[0].content == "a\nb"


def test_message_image_part_is_refused_by_position() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]
    error = refusal(chat, messages=[{"role": "user", "content": parts}])
    assert error.param == "messages[0].content"
    assert "part 1" in error.message
    assert "image_url" in error.message


def test_replayed_assistant_message_is_taken() -> None:
    replayed: dict[str, object] = {
        "role": "assistant",
        "content": "x",
        "refusal": None,
        "tool_calls": None,
        "annotations": [],
        "reasoning": "why",
    }
    message = chat(messages=[replayed]).messages[0]
    assert message.for_template() == {
        "role": "assistant",
        "content": "x",
        "reasoning_content": "why",
    }


def test_developer_message_is_a_system_message_to_templates() -> None:
    message = chat(messages=[{"role": "developer", "content": "x"}]).messages[0]
    assert message.for_template()["role"] == "system"


@pytest.mark.parametrize(
    ("prompt", "parsed"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_completion_prompt_takes_every_form(prompt: object, parsed: object) -> None:
    assert completion(prompt=prompt).prompt == parsed


@pytest.mark.parametrize("prompt", [3, [], [[]], ["a", 1], [1, "a"], [-1], [2**32], [True], [1.5]])
def test_completion_prompt_of_another_form_is_refused(prompt: object) -> None:
    assert refusal(completion, prompt=prompt).param == "prompt"


def test_completion_logprobs_is_a_number() -> None:
    assert completion(logprobs=5).top_logprobs_wanted == 5
    assert completion(logprobs=0).top_logprobs_wanted == 0
    assert completion().top_logprobs_wanted is None
    assert refusal(completion, logprobs=6).param == "logprobs"
    assert refusal(completion, logprobs=True).param == "logprobs"


def test_completion_echo_cannot_be_scored() -> None:
    assert refusal(completion, echo=True, logprobs=1).param == "echo"
