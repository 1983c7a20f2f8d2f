"""Requests as clients send them: OpenAI's chat completions and completions, checked strictly.

`app` calls `parse_chat` and `parse_completion` with the raw body. What a field means is OpenAI's
business; what this module decides is which fields exist here. A field is served, harmless (it
cannot change the answer, so it is dropped), accepted at its neutral value only, or refused by
name: nothing that would change the answer is ever ignored.
Source: OpenAI API reference, "Create chat completion" and "Create completion".
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json

from services.gateway.failures import BadRequest
from services.gateway.fields import (
    TOKEN_ID_MAX,
    Prompt,
    as_content,
    as_logit_bias,
    as_prompts,
    as_stop_strings,
)

CHOICES_PER_PROMPT_MAX = 128
EFFORT = "reasoning_effort"  # also the name of the template's variable
# Variables of chat templates that are ours to set.
TEMPLATE_RESERVED = frozenset(
    {"self", "messages", "tools", "add_generation_prompt"}
    | {"bos_token", "eos_token", "range", "raise_exception"}
)

_HARMLESS = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
# Fields of the official schema that are not served yet, with the values that ask for nothing.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "audio": (),
    "best_of": (1,),
    "function_call": ("none",),
    "functions": ([],),
    "modalities": (["text"],),
    "moderation": (),
    "parallel_tool_calls": (True, False),  # says nothing without tools
    "prediction": (),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),  # says nothing without tools
    "tools": ([],),
    "verbosity": ("medium",),
    "web_search_options": (),
}


class _Wire(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class StreamOptions(_Wire):
    """What a stream carries besides text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None  # padding against eavesdroppers; never sent here


class Message(_Wire):
    """One turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str | None, BeforeValidator(as_content)] = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # what some servers call reasoning_content

    @model_validator(mode="before")
    @classmethod
    def _without_empty_fields(cls, value: object) -> object:
        # Clients replay our own messages, which carry the schema's other fields as null or [].
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if item is not None and item != []}
        return value

    @model_validator(mode="after")
    def _has_content(self) -> Message:
        if self.content is None and self.role != "assistant":
            raise PydanticCustomError(
                "content_missing", "a {role} message needs content", {"role": self.role}
            )
        return self

    def for_template(self) -> dict[str, str]:
        """The message as chat templates expect it; they know `system`, not `developer`."""
        message = {
            "role": "system" if self.role == "developer" else self.role,
            "content": self.content or "",
        }
        reasoning = self.reasoning_content or self.reasoning
        if reasoning:
            message["reasoning_content"] = reasoning
        if self.name:
            message["name"] = self.name
        return message


class GenerationRequest(_Wire):
    """What both endpoints share. None stands for the default."""

    model: str | None = None  # None: the one that is served
    max_tokens: Annotated[int, Field(ge=1, le=TOKEN_ID_MAX)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=TOKEN_ID_MAX)] | None = None  # 0 or -1: off
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=10)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**64)] | None = None
    n: Annotated[int, Field(ge=1, le=CHOICES_PER_PROMPT_MAX)] | None = None
    stop: Annotated[tuple[str, ...], PlainValidator(as_stop_strings)] = ()
    ignore_eos: bool | None = None
    logit_bias: Annotated[dict[int, float], PlainValidator(as_logit_bias)] = Field(
        default_factory=dict
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def wants_usage_chunk(self) -> bool:
        """Whether the stream ends with a chunk that carries the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatCompletionRequest(GenerationRequest):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=TOKEN_ID_MAX)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None

    @property
    def output_tokens_max(self) -> int | None:
        """The client's limit on generated tokens, under either name."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def top_logprobs_wanted(self) -> int | None:
        """None: no log probabilities; n: the chosen token's and the n best."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def template_switches(self) -> dict[str, Any]:
        """Variables for the model's chat template."""
        effort = {} if self.reasoning_effort is None else {EFFORT: self.reasoning_effort}
        return {**(self.chat_template_kwargs or {}), **effort}


class CompletionRequest(GenerationRequest):
    """Body of POST /v1/completions."""

    prompt: Annotated[list[Prompt], PlainValidator(as_prompts)]
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None

    @property
    def output_tokens_max(self) -> int | None:
        """The client's limit on generated tokens."""
        return self.max_tokens

    @property
    def top_logprobs_wanted(self) -> int | None:
        """None: no log probabilities; n: the chosen token's and the n best."""
        return self.logprobs


def parse_chat(body: bytes) -> ChatCompletionRequest:
    """Read the body of a chat completion. Raises BadRequest."""
    request = _parse(ChatCompletionRequest, body)
    if request.top_logprobs is not None and not request.logprobs:
        raise BadRequest("'top_logprobs' needs 'logprobs': true.", param="top_logprobs")
    limits = {request.max_tokens, request.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise BadRequest(
            "'max_tokens' and 'max_completion_tokens' differ; send one of them.",
            param="max_completion_tokens",
        )
    for key in request.chat_template_kwargs or {}:
        if key in TEMPLATE_RESERVED:
            raise BadRequest(
                f"'chat_template_kwargs' may not set '{key}'.", param=f"chat_template_kwargs.{key}"
            )
        if key == EFFORT and request.reasoning_effort is not None:
            raise BadRequest(
                f"'{EFFORT}' and 'chat_template_kwargs.{EFFORT}' are both set; send one of them.",
                param=EFFORT,
            )
    return request


def parse_completion(body: bytes) -> CompletionRequest:
    """Read the body of a completion. Raises BadRequest."""
    request = _parse(CompletionRequest, body)
    if request.echo and request.logprobs is not None:
        raise BadRequest(
            "'echo' with 'logprobs' is not supported: prompts are not scored.",
            param="echo",
            code="unsupported_parameter",
        )
    return request


RequestT = TypeVar("RequestT", bound=GenerationRequest)


def _parse(kind: type[RequestT], body: bytes) -> RequestT:
    try:
        fields = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise BadRequest(
            f"The request body is not valid JSON: {error}.", code="invalid_json"
        ) from error
    if not isinstance(fields, dict):
        raise BadRequest("The request body should be a JSON object.", code="invalid_json")
    try:
        request = kind.model_validate(_served_fields(kind, fields))
    except ValidationError as error:
        raise _first_fault(error) from error
    if request.stream_options is not None and not request.stream:
        raise BadRequest("'stream_options' needs 'stream': true.", param="stream_options")
    return request


def _served_fields(kind: type[BaseModel], fields: dict[str, object]) -> dict[str, object]:
    """Drop what asks for nothing; refuse by name what is not served."""
    served: dict[str, object] = {}
    for name, value in fields.items():
        if name in kind.model_fields:
            if value is not None:
                served[name] = value
        elif name in _NEUTRAL:
            if value is not None and not any(_same(value, item) for item in _NEUTRAL[name]):
                raise BadRequest(
                    f"'{name}' is not supported by this server.",
                    param=name,
                    code="unsupported_parameter",
                )
        elif name not in _HARMLESS:
            raise BadRequest(
                f"Unknown parameter: '{name[:64]}'.", param=name[:64], code="unknown_parameter"
            )
    return served


def _same(value: object, neutral: object) -> bool:
    """Equality as JSON sees it: 1 is not true."""
    return json.dumps(value) == json.dumps(neutral)


def _first_fault(error: ValidationError) -> BadRequest:
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ""
    for step in fault["loc"]:
        param += f"[{step}]" if isinstance(step, int) else f".{step}" if param else step
    if fault["type"] == "missing":
        return BadRequest(
            f"Missing required parameter: '{param}'.",
            param=param,
            code="missing_required_parameter",
        )
    if fault["type"] == "extra_forbidden":
        return BadRequest(f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")
    return BadRequest(f"Invalid '{param}': {fault['msg']}.", param=param)
