"""Between proto messages and the engine's values."""

from __future__ import annotations

from engine.api import (
    EngineFacts,
    SampledToken,
    Sampling,
    SequenceId,
    SequenceStart,
    StepEntry,
    StepRequest,
    StepResult,
)
from services.pb import common_pb2, worker_pb2


def description(facts: EngineFacts) -> worker_pb2.WorkerDescription:
    """Facts of the engine as the scheduler reads them."""
    return worker_pb2.WorkerDescription(
        model_name=facts.model_name,
        architecture=facts.architecture,
        vocab_size=facts.vocab_size,
        context_tokens_max=facts.context_tokens_max,
        page_tokens=facts.page_tokens,
        num_pages=facts.num_pages,
        sequences_max=facts.sequences_max,
        step_tokens_max=facts.step_tokens_max,
        weight_bytes=facts.weight_bytes,
        kv_bytes_per_token=facts.kv_bytes_per_token,
        experts_per_token=facts.experts_per_token,
        model_experts_per_token=facts.model_experts_per_token,
    )


def step_request(message: worker_pb2.StepRequest) -> StepRequest:
    """A step as the engine takes it."""
    return StepRequest(
        step=message.step,
        releases=tuple(SequenceId(id) for id in message.releases),
        starts=tuple(
            SequenceStart(
                sequence=SequenceId(start.sequence),
                sampling=_sampling(start.sampling),
                num_prompt_tokens=start.num_prompt_tokens,
            )
            for start in message.starts
        ),
        entries=tuple(
            StepEntry(
                sequence=SequenceId(entry.sequence),
                tokens=tuple(entry.tokens),
                position=entry.position,
                new_pages=tuple(entry.new_pages),
                sample=entry.sample,
            )
            for entry in message.entries
        ),
    )


def step_result(result: StepResult) -> worker_pb2.StepResult:
    """A result as the scheduler reads it."""
    stats = result.stats
    return worker_pb2.StepResult(
        step=result.step,
        sampled=[
            worker_pb2.SampledToken(sequence=token.sequence, token=_token(token))
            for token in result.sampled
        ],
        stats=worker_pb2.StepStats(
            step_seconds=stats.step_seconds,
            prefill_tokens=stats.prefill_tokens,
            decode_tokens=stats.decode_tokens,
            experts_used=stats.experts_used,
            weight_bytes_read=stats.weight_bytes_read,
        ),
    )


def _sampling(message: common_pb2.Sampling) -> Sampling:
    return Sampling(
        temperature=message.temperature,
        top_k=message.top_k,
        top_p=message.top_p,
        min_p=message.min_p,
        repetition_penalty=message.repetition_penalty,
        presence_penalty=message.presence_penalty,
        frequency_penalty=message.frequency_penalty,
        seed=message.seed,
        logprobs=message.logprobs if message.HasField("logprobs") else None,
        logit_bias=tuple(sorted(message.logit_bias.items())),
    )


def _token(token: SampledToken) -> common_pb2.Token:
    top = [common_pb2.TopLogprob(token=id, logprob=value) for id, value in token.top]
    return common_pb2.Token(id=token.token, logprob=token.logprob, top=top)
