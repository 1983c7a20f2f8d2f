"""From a checked request and its prompt tokens to what the scheduler is asked; pure.

`app` calls `jobs` once per generation request. Limits that depend on the model are checked here.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.text.tokenizer import Tokenizer
from services.gateway.choice import Choice
from services.gateway.failures import BadRequest
from services.gateway.fanout import Job
from services.gateway.requests import ChatCompletionRequest, CompletionRequest
from services.pb import common_pb2, scheduler_pb2

GenerationRequest = ChatCompletionRequest | CompletionRequest


def make_jobs(
    request: GenerationRequest,
    prompts: Sequence[Sequence[int]],
    *,
    request_id: str,
    random_seed: int,
    tokenizer: Tokenizer,
    facts: scheduler_pb2.Description,
    choices_max: int,
) -> list[Job]:
    """One job per prompt and choice, prompt by prompt. Raises BadRequest.

    Choice i draws with seed + i, so choices differ and each can be had again alone.
    """
    per_prompt = request.n or 1
    if len(prompts) * per_prompt > choices_max:
        raise BadRequest(
            f"This request asks for {len(prompts) * per_prompt} choices;"
            f" the server allows {choices_max} per request.",
            param="n",
        )
    _check_bias(request.logit_bias, facts.vocab_size)
    stop_tokens = frozenset() if request.ignore_eos else frozenset(tokenizer.stop_ids)
    seed = random_seed if request.seed is None else request.seed
    made: list[Job] = []
    for prompt in prompts:
        _check_tokens(prompt, facts.vocab_size)
        max_tokens = _output_tokens(request, len(prompt), facts.context_tokens_max)
        for _ in range(per_prompt):
            index = len(made)
            made.append(
                Job(
                    choice=Choice(
                        index,
                        tokenizer=tokenizer,
                        num_prompt_tokens=len(prompt),
                        stop=request.stop,
                        stop_tokens=stop_tokens,
                        with_scores=request.top_logprobs_wanted is not None,
                    ),
                    request=scheduler_pb2.SubmitRequest(
                        request_id=f"{request_id}/{index}",
                        attempt=1,
                        prompt_tokens=prompt,
                        max_tokens=max_tokens,
                        sampling=_sampling(request, (seed + index) % 2**64),
                        stop_tokens=sorted(stop_tokens),
                    ),
                )
            )
    return made


def _sampling(request: GenerationRequest, seed: int) -> common_pb2.Sampling:
    top_k, top_p = max(request.top_k or 0, 0), _default(request.top_p, 1.0)
    if top_p == 0:  # the smallest set of tokens that reaches no mass at all: the best one
        top_k, top_p = 1, 1.0
    return common_pb2.Sampling(
        temperature=_default(request.temperature, 1.0),
        top_k=top_k,
        top_p=top_p,
        min_p=_default(request.min_p, 0.0),
        repetition_penalty=_default(request.repetition_penalty, 1.0),
        presence_penalty=_default(request.presence_penalty, 0.0),
        frequency_penalty=_default(request.frequency_penalty, 0.0),
        seed=seed,
        logprobs=request.top_logprobs_wanted,
        logit_bias=request.logit_bias,
    )


def _default(value: float | None, default: float) -> float:
    return default if value is None else value


def _check_bias(bias: dict[int, float], vocab_size: int) -> None:
    for token in bias:
        if token >= vocab_size:
            raise BadRequest(
                f"Invalid 'logit_bias': token {token} is not in the vocabulary of {vocab_size}.",
                param="logit_bias",
            )


def _check_tokens(prompt: Sequence[int], vocab_size: int) -> None:
    if not prompt:
        raise BadRequest("The prompt is empty: it has no tokens.", param="prompt")
    if max(prompt) >= vocab_size:
        raise BadRequest(
            f"Invalid 'prompt': token {max(prompt)} is not in the vocabulary of {vocab_size}.",
            param="prompt",
        )


def _output_tokens(request: GenerationRequest, num_prompt_tokens: int, context: int) -> int:
    """Tokens that may be generated; by default the rest of the context."""
    param = "messages" if isinstance(request, ChatCompletionRequest) else "prompt"
    wanted = request.output_tokens_max
    if num_prompt_tokens >= context:
        raise BadRequest(
            f"This model's context is {context} tokens; the prompt alone has {num_prompt_tokens}.",
            param=param,
            code="context_length_exceeded",
        )
    if wanted is not None and num_prompt_tokens + wanted > context:
        raise BadRequest(
            f"This model's context is {context} tokens; the request needs"
            f" {num_prompt_tokens + wanted}: {num_prompt_tokens} of prompt and up to {wanted} of"
            " output.",
            param=param,
            code="context_length_exceeded",
        )
    return context - num_prompt_tokens if wanted is None else wanted
