"""Why a request does not run, or not to its end: the request, a lost worker, shutdown. Pure."""

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
        return _never_began(
            sequence, Refusal.NOT_READY, "the worker was lost before this request began"
        )
    return _broken_off(sequence, "the worker was lost while it computed this answer")


def given_up(sequence: Sequence) -> Refuse:
    """How a request ends when the process stops before it is finished."""
    if sequence.started is None:
        return _never_began(
            sequence, Refusal.DRAINING, "the server shut down before this request began"
        )
    return _broken_off(sequence, "the server shut down while it computed this answer")


def _never_began(sequence: Sequence, refusal: Refusal, message: str) -> Refuse:
    """It certainly did not happen, and may be sent again."""
    return Refuse(key=sequence.key, refusal=refusal, message=message)


def _broken_off(sequence: Sequence, message: str) -> Refuse:
    return Refuse(key=sequence.key, refusal=Refusal.WORKER_LOST, message=message, began=True)
