"""The scheduler's decisions: events in, actions out. Pure: no clock, no input or output.

`Core.handle(event, now)` is called by the shell (`driver.py`) for everything that happens; the
actions it returns are carried out in order. One step is in flight at a time; when it is done, or
when the worker is idle and something arrives, the next is composed:

1. one token for every running sequence that is decoding
2. prefill chunks of running sequences, oldest first, within the step's token budget
3. waiting requests in order of arrival, when their pages are free and a sequence is

When pages run out the youngest running sequence is preempted: its pages are freed, and it goes to
the head of the queue to be computed again from its token ids. Its stream goes on where it was,
because a token depends on the tokens before it, the seed and its index only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from services.scheduler.model import (
    Action,
    Cancelled,
    Drain,
    Emit,
    Entry,
    Event,
    Finish,
    Reason,
    Refusal,
    Refuse,
    Request,
    RequestKey,
    Sampled,
    SendStep,
    Sequence,
    Start,
    StepDone,
    Submitted,
    Usage,
    WorkerDown,
    WorkerFacts,
    WorkerUp,
)
from services.scheduler.pages import Pages

RETRY_MS_MIN, RETRY_MS_MAX = 500, 60_000
RATE_SMOOTHING = 0.2  # weight of the newest interval between two finished requests


class Core:
    """All sequences and pages of one worker."""

    def __init__(self, *, queue_requests_max: int) -> None:
        self._queue_max = queue_requests_max
        self._facts: WorkerFacts | None = None
        self._pages = Pages(0, 1)
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []  # oldest first
        self._by_key: dict[RequestKey, Sequence] = {}
        self._releases: list[int] = []  # sequences that the next step releases
        self._in_flight: dict[int, Sequence] = {}
        self._step_sent = False
        self._steps = 0
        self._ids = 0
        self._draining = False
        self._last_finish: float | None = None
        self._finish_interval = RETRY_MS_MIN / 1000
        self.preemptions = 0

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def is_idle(self) -> bool:
        return not self._by_key

    @property
    def page_usage(self) -> float:
        """Fraction of KV pages held, 0-1."""
        total = self._pages.num_pages
        return (total - self._pages.num_free) / total if total else 0.0

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in what happened; returns what to do about it, in order."""
        actions: list[Action] = []
        match event:
            case Submitted(request=request):
                actions += self._submit(request, now)
            case Cancelled(key=key):
                self._forget(key)
            case StepDone(step=step, sampled=sampled):
                assert self._step_sent, "a step is done that was not sent"
                assert step == self._steps, f"step {step} is done, {self._steps} was sent"
                actions += self._step_done(sampled, now)
            case WorkerUp(facts=facts):
                self._facts = facts
                self._pages = Pages(facts.num_pages, facts.page_tokens)
                actions += self._refuse_misfits()
            case WorkerDown():
                actions += self._worker_down()
            case Drain():
                self._draining = True
        return actions + self._next_step(now)

    def check_invariants(self) -> None:
        """Recompute from scratch what the core keeps."""
        self._pages.check_invariants([page for s in self._running for page in s.pages])
        sequences = [*self._waiting, *self._running]
        assert {s.key for s in sequences} == set(self._by_key), "a request is lost or double"
        assert len(sequences) == len(self._by_key), "a request is double"
        for s in self._running:
            assert s.id, "a running sequence without an id"
            assert s.computed <= len(s.pages) * self._pages.page_tokens, "computed beyond pages"
        for s in self._waiting:
            assert not s.pages, "a waiting sequence holds pages"
            assert s.computed == 0, "a waiting sequence is computed"
        ages = [s.arrived for s in self._running]
        assert ages == sorted(ages), "running sequences are out of order"

    def _submit(self, request: Request, now: float) -> list[Action]:
        refusal = self._refusal(request)
        if refusal is not None:
            return [refusal]
        sequence = Sequence(request=request, arrived=now, tokens=list(request.prompt))
        self._by_key[request.key] = sequence
        self._waiting.append(sequence)
        return []

    def _refusal(self, request: Request) -> Refuse | None:
        key = request.key
        if self._draining:
            return Refuse(key=key, refusal=Refusal.DRAINING, message="the server is shutting down")
        if self._facts is None:
            return Refuse(key=key, refusal=Refusal.NOT_READY, message="no worker is ready")
        if (misfit := _misfit(request, self._facts)) is not None:
            return misfit
        if len(self._waiting) >= self._queue_max:
            return Refuse(
                key=key,
                refusal=Refusal.OVERLOADED,
                message=f"{len(self._waiting)} requests are waiting, the most that may",
                retry_after_ms=self._retry_after_ms(),
            )
        return None

    def _retry_after_ms(self) -> int:
        """When a place in the queue should be free: one finish from now, at the measured rate."""
        return int(min(max(self._finish_interval * 1000, RETRY_MS_MIN), RETRY_MS_MAX))

    def _refuse_misfits(self) -> list[Action]:
        """Requests that waited for a worker and do not fit the one that came."""
        assert self._facts is not None
        refusals = [_misfit(s.request, self._facts) for s in self._waiting]
        misfits = [refusal for refusal in refusals if refusal is not None]
        for refusal in misfits:
            self._forget(refusal.key)
        return list(misfits)

    def _forget(self, key: RequestKey) -> None:
        """Drop a request, wherever it is; its pages are free for the next step."""
        sequence = self._by_key.pop(key, None)
        if sequence is None:
            return
        if sequence.id:
            self._stop_running(sequence)
        else:
            self._waiting.remove(sequence)

    def _stop_running(self, sequence: Sequence) -> None:
        """Release on the worker. The step that reuses its pages carries the release first."""
        self._running.remove(sequence)
        self._releases.append(sequence.id)
        self._in_flight.pop(sequence.id, None)
        self._pages.release(sequence.pages)
        sequence.pages, sequence.computed, sequence.id = [], 0, 0

    def _worker_down(self) -> list[Action]:
        lost = list(self._running)
        for sequence in lost:
            self._forget(sequence.key)
        self._facts, self._pages = None, Pages(0, 1)
        self._releases.clear()
        self._in_flight.clear()
        self._step_sent = False
        message = "the worker was lost while it computed this answer"
        return [Refuse(key=s.key, refusal=Refusal.WORKER_LOST, message=message) for s in lost]

    def _step_done(self, sampled: tuple[Sampled, ...], now: float) -> list[Action]:
        self._step_sent = False
        actions: list[Action] = []
        for token in sampled:
            sequence = self._in_flight.get(token.sequence)
            if sequence is None:  # cancelled while the step ran
                continue
            sequence.tokens.append(token.id)
            if sequence.first_token is None:
                sequence.first_token = now
            actions.append(Emit(key=sequence.key, token=token.token))
            reason = self._reason_to_finish(sequence)
            if reason is not None:
                actions.append(self._finish(sequence, reason, now))
        self._in_flight.clear()
        return actions

    def _reason_to_finish(self, sequence: Sequence) -> Reason | None:
        assert self._facts is not None
        if sequence.tokens[-1] in sequence.request.stop_tokens:
            return Reason.STOP
        full = len(sequence.tokens) >= self._facts.context_tokens_max
        if full or sequence.num_output >= sequence.request.max_tokens:
            return Reason.LENGTH
        return None

    def _finish(self, sequence: Sequence, reason: Reason, now: float) -> Finish:
        assert sequence.started is not None
        assert sequence.first_token is not None
        usage = Usage(
            prompt_tokens=len(sequence.request.prompt),
            completion_tokens=sequence.num_output,
            queue_seconds=sequence.started - sequence.arrived,
            prefill_seconds=sequence.first_token - sequence.started,
            decode_seconds=now - sequence.first_token,
        )
        if self._last_finish is not None:
            newest = now - self._last_finish
            self._finish_interval += RATE_SMOOTHING * (newest - self._finish_interval)
        self._last_finish = now
        self._forget(sequence.key)
        return Finish(key=sequence.key, reason=reason, usage=usage)

    def _next_step(self, now: float) -> list[Action]:
        """Compose and send a step if the worker is free and there is something to do."""
        if self._step_sent or self._facts is None:
            return []
        starts: list[Start] = []
        entries: list[Entry] = []
        budget = self._facts.step_tokens_max
        for sequence in [s for s in self._running if s.remaining == 1]:
            if budget and sequence.id and (entry := self._entry(sequence, 1, self._preempt)):
                entries.append(entry)
                budget -= 1
        for sequence in [s for s in self._running if s.remaining > 1]:
            if budget and (entry := self._entry(sequence, budget, None)):
                entries.append(entry)
                budget -= len(entry.tokens)
        while budget and self._may_admit():
            sequence = self._waiting.popleft()
            starts.append(self._start(sequence, now))
            entry = self._entry(sequence, budget, None)
            assert entry is not None, "admitted without pages"
            entries.append(entry)
            budget -= len(entry.tokens)
        # A sequence that was preempted while this step was composed must not be in it.
        entries = [entry for entry in entries if entry.sequence not in self._releases]
        if not entries and not self._releases:
            return []
        return [self._send(starts, entries)]

    def _send(self, starts: list[Start], entries: list[Entry]) -> SendStep:
        self._steps += 1
        self._step_sent = True
        by_id = {s.id: s for s in self._running}
        self._in_flight = {entry.sequence: by_id[entry.sequence] for entry in entries}
        for entry in entries:
            by_id[entry.sequence].computed += len(entry.tokens)
        releases, self._releases = tuple(self._releases), []
        return SendStep(
            step=self._steps, releases=releases, starts=tuple(starts), entries=tuple(entries)
        )

    def _may_admit(self) -> bool:
        """The next in line starts when all its tokens, and one page more, have room."""
        assert self._facts is not None
        if not self._waiting or len(self._running) >= self._facts.sequences_max:
            return False
        needed = self._pages.needed_for(len(self._waiting[0].tokens))
        # Alone it may take the last page; among others that would soon preempt somebody.
        return needed + (1 if self._running else 0) <= self._pages.num_free

    def _start(self, sequence: Sequence, now: float) -> Start:
        self._ids += 1
        sequence.id = self._ids
        sequence.started = now if sequence.started is None else sequence.started
        self._running.append(sequence)
        self._running.sort(key=lambda s: s.arrived)
        return Start(
            sequence=sequence.id,
            sampling=sequence.request.sampling,
            num_prompt_tokens=len(sequence.request.prompt),
        )

    def _entry(
        self, sequence: Sequence, budget: int, make_room: Callable[[], Sequence] | None
    ) -> Entry | None:
        """The next tokens of a sequence with the pages they need; None when there are none."""
        count = min(budget, sequence.remaining)
        end = sequence.computed + count
        needed = self._pages.needed_for(end) - len(sequence.pages)
        while (pages := self._pages.take(max(0, needed))) is None:
            if make_room is None or make_room() is sequence:
                return None
        sequence.pages.extend(pages)
        return Entry(
            sequence=sequence.id,
            tokens=tuple(sequence.tokens[sequence.computed : end]),
            position=sequence.computed,
            new_pages=pages,
            sample=end == len(sequence.tokens),
        )

    def _preempt(self) -> Sequence:
        """Free the pages of the youngest running sequence; it will be computed again."""
        youngest = self._running[-1]
        self._stop_running(youngest)
        self._waiting.appendleft(youngest)
        self.preemptions += 1
        return youngest


def _misfit(request: Request, facts: WorkerFacts) -> Refuse | None:
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
    return None
