"""Why a request does not run: it fits no worker like this one, or its worker was lost. Pure."""

from __future__ import annotations

from services.scheduler.model import Refusal, Refuse, Request, Sequence, WorkerFacts


def misfit(request: Request, facts: WorkerFacts) -> Refuse | None:
    """What is wrong with a request for this model, if anything."""

    def invalid(message: str, param: str) -> Refuse:
        return Refuse(key=request.key, refusal=Refusal.INVALID, message=message, param=param)

    total = len(request.prompt) + request.max_tokens
    if not request.prompt:
        return invalid("the prompt is empty", "prompt_tokens")
    if request.max_tokens < 1:
        return invalid("max_tokens is less than 1", "max_tokens")
    if max(request.prompt) >= facts.vocab_size:
        return invalid(f"a token outside the vocabulary of {facts.vocab_size}", "prompt_tokens")
    if total > facts.context_tokens_max:
        return invalid(
            f"{len(request.prompt)} prompt tokens and {request.max_tokens} to generate exceed the "
            f"context of {facts.context_tokens_max}",
            "max_tokens",
        )
    if total > facts.num_pages * facts.page_tokens:
        return invalid(
            f"{total} tokens exceed the KV cache of {facts.num_pages * facts.page_tokens}",
            "max_tokens",
        )
    return None


def lost(sequence: Sequence) -> Refuse:
    """How a request ends when its worker is lost."""
    if sequence.started is None:
        return Refuse(
            key=sequence.key,
            refusal=Refusal.NOT_READY,
            message="the worker was lost before this request began",
        )
    return Refuse(
        key=sequence.key,
        refusal=Refusal.WORKER_LOST,
        message="the worker was lost while it computed this answer",
        began=True,
    )
