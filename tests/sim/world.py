"""A simulated world around the scheduler's core: clients that come and go, a worker that computes.

One seed decides everything. The core and the fake engine are the real ones; time is a number. After
every event the core's invariants are checked, and every step must leave out the requests that have
ended; `World.outcomes` records what each client saw, `World.starts` who was begun when.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from engine.api import Sampling, SequenceId, SequenceStart, StepEntry, StepRequest, StepResult
from engine.fake import FakeEngine, next_token
from services.scheduler.core import Core
from services.scheduler.model import (
    Cancelled,
    Drain,
    Emit,
    Event,
    Finish,
    GiveUp,
    Reason,
    Refusal,
    Refuse,
    Request,
    RequestKey,
    Sampled,
    SendStep,
    StepDone,
    Submitted,
    WorkerDown,
    WorkerFacts,
    WorkerUp,
)

EVENTS_MAX = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How crowded and how unlucky a world is."""

    num_requests: int = 30
    prompt_tokens_max: int = 40
    output_tokens_max: int = 40
    vocab_size: int = 50
    page_tokens: int = 4
    num_pages: int = 24
    sequences_max: int = 6
    step_tokens_max: int = 16
    queue_requests_max: int = 12
    cancel_share: float = 0.1  # of requests, at a random moment
    loss_share: float = 0.0  # chance per event that the worker dies
    drain_at: int | None = None  # event after which the scheduler drains
    give_up_at: int | None = None  # event after which it ends what is left


@dataclass(slots=True)
class Outcome:
    """What one client asked for and saw."""

    request: Request
    tokens: list[int] = field(default_factory=list)
    ends: list[Reason | Refusal | str] = field(default_factory=list)


class World:
    """Run one with `run()`, then read `outcomes` and `core`."""

    def __init__(self, seed: int, settings: Settings) -> None:
        self._rng = random.Random(seed)
        self._settings = settings
        self.core = Core(queue_requests_max=settings.queue_requests_max)
        self.outcomes: dict[RequestKey, Outcome] = {}
        self.starts: list[RequestKey] = []  # in order of their first step
        self.max_step_tokens = 0
        self._key_by_seed: dict[int, RequestKey] = {}
        self._key_by_sequence: dict[int, RequestKey] = {}
        self._engine: FakeEngine | None = None
        self._in_flight: SendStep | None = None
        self._now = 0.0
        self._keys = 0

    def run(self) -> None:
        """Until every request has ended and the core is idle."""
        self._worker_up()
        for count in range(EVENTS_MAX):
            if self._settings.drain_at == count:
                self._post(Drain())
            if self._settings.give_up_at == count:
                self._post(GiveUp())
            if self._keys >= self._settings.num_requests and self.core.is_idle:
                if self._in_flight is None:
                    assert self._engine is None or not self._engine.open_sequences, "a leak"
                    return
                self._finish_step()
                continue
            self._happen()
        raise AssertionError(f"not idle after {EVENTS_MAX} events")

    def _happen(self) -> None:
        """One random thing."""
        rng, settings = self._rng, self._settings
        self._now += rng.random()
        if self._engine is None:
            self._worker_up()
        elif rng.random() < settings.loss_share:
            self._engine = self._in_flight = None
            self._post(WorkerDown())
        elif self._keys < settings.num_requests and rng.random() < 0.3:
            self._arrive()
        elif rng.random() < settings.cancel_share / 4:
            self._cancel()
        elif self._in_flight is not None:
            self._finish_step()

    def _arrive(self) -> None:
        rng, settings = self._rng, self._settings
        self._keys += 1
        length = rng.choice(
            [1, 2, settings.page_tokens, rng.randint(1, settings.prompt_tokens_max)]
        )
        seed = rng.randrange(1000) * settings.num_requests + self._keys  # one of its own
        request = Request(
            key=RequestKey(self._keys),
            prompt=tuple(rng.randrange(settings.vocab_size) for _ in range(length)),
            max_tokens=rng.choice([1, 2, rng.randint(1, settings.output_tokens_max)]),
            stop_tokens=frozenset(rng.sample(range(settings.vocab_size), rng.choice([0, 0, 2]))),
            sampling=Sampling(seed=seed),
        )
        self._key_by_seed[seed] = request.key
        self.outcomes[request.key] = Outcome(request)
        self._post(Submitted(request=request))

    def _cancel(self) -> None:
        open_now = [key for key, outcome in self.outcomes.items() if not outcome.ends]
        if open_now:
            key = self._rng.choice(open_now)
            self.outcomes[key].ends.append("cancelled")
            self._post(Cancelled(key=key))

    def _worker_up(self) -> None:
        s = self._settings
        self._engine = FakeEngine(
            vocab_size=s.vocab_size,
            page_tokens=s.page_tokens,
            num_pages=s.num_pages,
            sequences_max=s.sequences_max,
            step_tokens_max=s.step_tokens_max,
        )
        facts = WorkerFacts(
            vocab_size=s.vocab_size,
            context_tokens_max=self._engine.facts.context_tokens_max,
            page_tokens=s.page_tokens,
            num_pages=s.num_pages,
            sequences_max=s.sequences_max,
            step_tokens_max=s.step_tokens_max,
        )
        self._post(WorkerUp(facts=facts))

    def _finish_step(self) -> None:
        assert self._engine is not None
        step, self._in_flight = self._in_flight, None
        assert step is not None
        result = self._engine.step(engine_request(step))
        self._post(StepDone(step=step.step, sampled=_sampled(result)))

    def _post(self, event: Event) -> None:
        steps: list[SendStep] = []
        for action in self.core.handle(event, self._now):
            match action:
                case SendStep():
                    steps.append(action)
                case Emit(key=key, token=token):
                    outcome = self.outcomes[key]
                    assert not outcome.ends, "a token after the end"
                    assert isinstance(token, int)
                    outcome.tokens.append(token)
                case Finish(key=key, reason=reason):
                    self.outcomes[key].ends.append(reason)
                case Refuse(key=key, refusal=refusal):
                    self.outcomes[key].ends.append(refusal)
        self.core.check_invariants()
        for step in steps:  # after the ends of requests, which it must respect
            assert self._in_flight is None, "two steps in flight"
            self._in_flight = step
            self._look_at(step)

    def _look_at(self, step: SendStep) -> None:
        """What holds of every step, whatever came before."""
        tokens = sum(len(entry.tokens) for entry in step.entries)
        self.max_step_tokens = max(self.max_step_tokens, tokens)
        for start in step.starts:
            assert isinstance(start.sampling, Sampling)
            key = self._key_by_seed[start.sampling.seed]
            self._key_by_sequence[start.sequence] = key
            if key not in self.starts:
                self.starts.append(key)
        for entry in step.entries:
            key = self._key_by_sequence[entry.sequence]
            assert not self.outcomes[key].ends, f"{key} has ended and is computed on"


def engine_request(step: SendStep) -> StepRequest:
    """The step as an engine takes it."""
    starts = []
    for start in step.starts:
        assert isinstance(start.sampling, Sampling)
        starts.append(
            SequenceStart(
                sequence=SequenceId(start.sequence),
                sampling=start.sampling,
                num_prompt_tokens=start.num_prompt_tokens,
            )
        )
    return StepRequest(
        step=step.step,
        releases=tuple(SequenceId(id) for id in step.releases),
        starts=tuple(starts),
        entries=tuple(
            StepEntry(
                sequence=SequenceId(entry.sequence),
                tokens=entry.tokens,
                position=entry.position,
                new_pages=entry.new_pages,
                sample=entry.sample,
            )
            for entry in step.entries
        ),
    )


def _sampled(result: StepResult) -> tuple[Sampled, ...]:
    return tuple(
        Sampled(sequence=each.sequence, id=each.token, token=each.token) for each in result.sampled
    )


def expected_output(request: Request, settings: Settings) -> tuple[list[int], Reason]:
    """What a request gets when it is alone in the world."""
    assert isinstance(request.sampling, Sampling)
    tokens = list(request.prompt)
    context = settings.num_pages * settings.page_tokens
    while True:
        seed, vocab_size = request.sampling.seed, settings.vocab_size
        prompt = len(request.prompt)
        tokens.append(next_token(tokens, seed, vocab_size, num_prompt_tokens=prompt))
        output = tokens[len(request.prompt) :]
        if output[-1] in request.stop_tokens:
            return output, Reason.STOP
        if len(output) >= request.max_tokens or len(tokens) >= context:
            return output, Reason.LENGTH
