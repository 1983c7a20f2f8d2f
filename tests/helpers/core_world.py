"""Builders for tests of the scheduler's core by hand: one core, one imagined worker."""

from __future__ import annotations

from collections.abc import Sequence

from services.scheduler.core import Core
from services.scheduler.model import (
    Action,
    Emit,
    Event,
    Finish,
    Refuse,
    Request,
    RequestKey,
    Sampled,
    SendStep,
    StepDone,
    Submitted,
    WorkerFacts,
    WorkerUp,
)


def facts(
    *,
    vocab_size: int = 100,
    context_tokens_max: int = 64,
    page_tokens: int = 4,
    num_pages: int = 16,
    sequences_max: int = 4,
    step_tokens_max: int = 8,
) -> WorkerFacts:
    """A small worker."""
    return WorkerFacts(
        vocab_size=vocab_size,
        context_tokens_max=context_tokens_max,
        page_tokens=page_tokens,
        num_pages=num_pages,
        sequences_max=sequences_max,
        step_tokens_max=step_tokens_max,
    )


def request(
    key: int,
    prompt: Sequence[int] | int = 3,
    *,
    max_tokens: int = 8,
    stop_tokens: Sequence[int] = (),
) -> Request:
    """A request; a prompt given as a number is that many tokens 1, 2, 3, …"""
    tokens = range(1, prompt + 1) if isinstance(prompt, int) else prompt
    return Request(
        key=RequestKey(key),
        prompt=tuple(tokens),
        max_tokens=max_tokens,
        stop_tokens=frozenset(stop_tokens),
        sampling=f"sampling of {key}",
    )


class CoreWorld:
    """Feeds a core and keeps what came out; the clock stands where `now` says."""

    def __init__(self, worker: WorkerFacts | None = None, *, queue_requests_max: int = 8) -> None:
        self.core = Core(queue_requests_max=queue_requests_max)
        self.now = 0.0
        self.step: SendStep | None = None  # in flight
        self.emitted: list[tuple[int, object]] = []
        self.finished: list[Finish] = []
        self.refused: list[Refuse] = []
        self.post(WorkerUp(facts=worker or facts()))

    def post(self, event: Event) -> list[Action]:
        actions = self.core.handle(event, self.now)
        for action in actions:
            match action:
                case SendStep():
                    assert self.step is None, "two steps in flight"
                    self.step = action
                case Emit(key=key, token=token):
                    self.emitted.append((key, token))
                case Finish():
                    self.finished.append(action)
                case Refuse():
                    self.refused.append(action)
        self.core.check_invariants()
        return actions

    def submit(self, *requests: Request) -> None:
        for each in requests:
            self.post(Submitted(request=each))

    def finish_step(self, token: int = 50) -> SendStep:
        """The worker answers, with `token` for everybody; returns the step that was in flight."""
        step, self.step = self.step, None
        assert step is not None, "no step in flight"
        sampled = tuple(
            Sampled(sequence=entry.sequence, id=token, token=token)
            for entry in step.entries
            if entry.sample
        )
        self.post(StepDone(step=step.step, sampled=sampled))
        return step

    @property
    def flying(self) -> SendStep:
        assert self.step is not None, "no step in flight"
        return self.step
