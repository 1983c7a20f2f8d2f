"""The scheduler's decisions: events in, actions out. Pure: no clock, no input or output.

`Core.handle(event, now)` is called by the shell (`driver.py`) for everything that happens; the
actions it returns are carried out in order. One step is in flight at a time; when it is done, or
when the worker is idle and something arrives, the next is composed:

1. one token for every running sequence that is decoding
2. prefill chunks of running sequences, oldest first, within the step's token budget
3. waiting requests in order of arrival, when pages for all their tokens are free

A sequence holds the pages of all its tokens from its first chunk on, so that a prefill never stalls
half way behind younger ones. When a decoding sequence finds no page for its next token, the
youngest running sequence is preempted: its pages are freed, and it goes to the head of the queue to
be computed again from its token ids. Its stream goes on where it was, because a token depends on
the tokens before it, the seed and its index only. The oldest is never preempted for another, so
every request ends.
"""

from __future__ import annotations

from collections import deque

from services.scheduler.model import (
    Action,
    Cancelled,
    Drain,
    Emit,
    Entry,
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
from services.scheduler.refusals import given_up, lost, misfit

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
        """Take in what happened; returns what to do about it, in order.

        A step comes first, so that the worker computes while tokens go out to their clients.
        """
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
                assert self._facts is None, "a worker came while there was one"
                self._facts = facts
                self._pages = Pages(facts.num_pages, facts.page_tokens)
            case WorkerDown():
                actions += self._worker_down()
            case Drain():
                self._draining = True
            case GiveUp():
                actions += self._give_up()
        return [*self._next_step(now), *actions]

    def check_invariants(self) -> None:
        """Recompute from scratch what the core keeps."""
        self._pages.check_invariants([page for s in self._running for page in s.pages])
        sequences = [*self._waiting, *self._running]
        assert {s.key for s in sequences} == set(self._by_key), "a request is lost or double"
        assert len(sequences) == len(self._by_key), "a request is double"
        assert not sequences or self._facts is not None, "requests without a worker"
        # Who is admitted takes a token that the others left over, so that all can decode in a step.
        assert self._facts is None or len(self._running) <= self._facts.step_tokens_max
        for s in self._running:
            assert s.id, "a running sequence without an id"
            # The token that was sampled last may still lack its page.
            assert len(s.pages) >= self._pages.needed_for(len(s.tokens) - 1), "pages are missing"
            assert s.computed <= len(s.tokens), "more is computed than there is"
        for s in self._waiting:
            assert not s.id, "a waiting sequence is on the worker"
            assert not s.pages, "a waiting sequence holds pages"
            assert s.computed == 0, "a waiting sequence is computed"
        running = {s.id for s in self._running}
        assert len(running) == len(self._running), "two sequences with one id"
        assert running.isdisjoint(self._releases), "a running sequence is to be released"
        assert running >= self._in_flight.keys(), "the step in flight holds an ended sequence"
        assert self._step_sent or not self._in_flight, "entries in flight without a step"
        ages = [s.arrived for s in [*self._running, *self._waiting]]
        assert ages == sorted(ages), "sequences are out of the order of arrival"

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
        if (refusal := misfit(request, self._facts)) is not None:
            return refusal
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
        sequence.id, sequence.computed = 0, 0
        sequence.pages, sequence.pages_sent = [], 0

    def _worker_down(self) -> list[Action]:
        """Every request ends. What never began certainly did not happen, and may be sent again."""
        ended: list[Action] = [lost(sequence) for sequence in self._by_key.values()]
        self._facts, self._pages = None, Pages(0, 1)
        self._waiting.clear()
        self._running.clear()
        self._by_key.clear()
        self._releases.clear()
        self._in_flight.clear()
        self._step_sent = False
        self._last_finish = None
        return ended

    def _give_up(self) -> list[Action]:
        """Every request ends; a last step releases what the worker has of them."""
        self._draining = True
        ended: list[Action] = [given_up(sequence) for sequence in self._by_key.values()]
        for key in list(self._by_key):
            self._forget(key)
        return ended

    def _step_done(self, sampled: tuple[Sampled, ...], now: float) -> list[Action]:
        self._step_sent = False
        actions: list[Action] = []
        for token in sampled:
            sequence = self._in_flight.get(token.sequence)
            if sequence is None:  # cancelled while the step ran
                continue
            assert sequence.remaining == 0, "a token came that was not asked for"
            sequence.tokens.append(token.id)
            if sequence.first_token is None:
                sequence.first_token = now
            actions.append(Emit(key=sequence.key, token=token.token))
            reason = self._reason_to_finish(sequence)
            if reason is not None:
                actions.append(self._finish(sequence, reason, now))
        assert all(s.remaining for s in self._in_flight.values()), "a token is missing in a result"
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
        if self.is_idle:  # the time until somebody comes again says nothing of our speed
            self._last_finish = None
        return Finish(key=sequence.key, reason=reason, usage=usage)

    def _next_step(self, now: float) -> list[Action]:
        """Compose and send a step if the worker is free and there is something to do."""
        if self._step_sent or self._facts is None:
            return []
        starts: list[Start] = []
        entries: list[Entry] = []
        budget = self._facts.step_tokens_max
        # Oldest first, and the youngest gives way: who is preempted here has no entry yet.
        for sequence in [s for s in self._running if s.remaining == 1]:
            if sequence.id and self._hold_pages(sequence):
                entries.append(self._entry(sequence, budget))
                budget -= 1
        for sequence in [s for s in self._running if s.remaining > 1]:
            if budget:
                entries.append(self._entry(sequence, budget))
                budget -= len(entries[-1].tokens)
        while budget and self._may_admit():
            sequence = self._waiting.popleft()
            starts.append(self._start(sequence, now))
            entries.append(self._entry(sequence, budget))
            budget -= len(entries[-1].tokens)
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
        self._running.append(sequence)  # still oldest first: who waits came after all who run
        held = self._hold_pages(sequence)
        assert held, "admitted without pages"
        return Start(
            sequence=sequence.id,
            sampling=sequence.request.sampling,
            num_prompt_tokens=len(sequence.request.prompt),
        )

    def _hold_pages(self, sequence: Sequence) -> bool:
        """Hold the pages of all its tokens, taking them from the youngest if there are too few.

        False when the youngest was `sequence` itself, which then waits.
        """
        needed = self._pages.needed_for(len(sequence.tokens)) - len(sequence.pages)
        while (pages := self._pages.take(needed)) is None:
            youngest = self._running[-1]
            self._stop_running(youngest)
            self._waiting.appendleft(youngest)
            self.preemptions += 1
            if youngest is sequence:
                return False
        sequence.pages.extend(pages)
        return True

    def _entry(self, sequence: Sequence, budget: int) -> Entry:
        """The next tokens of a sequence, at most `budget`, with the pages not yet sent."""
        end = sequence.computed + min(budget, sequence.remaining)
        new_pages = tuple(sequence.pages[sequence.pages_sent :])
        sequence.pages_sent = len(sequence.pages)
        return Entry(
            sequence=sequence.id,
            tokens=tuple(sequence.tokens[sequence.computed : end]),
            position=sequence.computed,
            new_pages=new_pages,
            sample=end == len(sequence.tokens),
        )
