"""Runs steps: one forward pass over tokens of many sequences, then the sampler.

`ModelEngine` is the `engine.api.Engine` that a worker hosts. A step goes:

1. check the whole request against the open sequences (`check`): if it does not fit, StepError, and
   nothing has changed
2. release, open, and append pages
3. lay all entries' tokens out as one batch (`kv.tables.places`)
4. forward through the model; final norm and head for the rows that sample
5. sample each of those rows on its own (`engine.sampler`)
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.api import (
    EngineFacts,
    SampledToken,
    SequenceId,
    StepEntry,
    StepRequest,
    StepResult,
    StepStats,
)
from engine.config import EngineConfig
from engine.errors import StepError, TraceError
from engine.experts.store import ExpertUse
from engine.experts.trace import TracedStep, TraceWriter
from engine.gguf.reader import GGUFModel
from engine.gguf.shape import ModelShape
from engine.kv.layout import StateLayout
from engine.kv.memory import SequenceMemory, SlotSnapshot
from engine.kv.tables import Span, places
from engine.model.registry import Model
from engine.rules import check_step
from engine.sampler import sample
from engine.sequence import Sequence

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """An architecture ready to run, with what it was made from."""

    file: GGUFModel
    shape: ModelShape
    model_experts_used: int  # before the configuration changed it
    model: Model
    layout: StateLayout
    memory: SequenceMemory
    weight_bytes: int
    fixed_bytes_per_step: int  # weights that every step reads: all but routed experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a sequence's state was after `num_tokens` tokens, apart from its pages."""

    num_tokens: int
    slot: SlotSnapshot

    @property
    def num_bytes(self) -> int:
        return self.slot.num_bytes


class ModelEngine:
    """A model and its open sequences. One thread owns it."""

    def __init__(
        self, loaded: LoadedModel, config: EngineConfig, trace: TraceWriter | None = None
    ) -> None:
        self._loaded = loaded
        self._trace = trace
        self._config = config
        self._sequences: dict[SequenceId, Sequence] = {}
        self._page_owner: dict[int, SequenceId] = {}
        self._free_slots = list(range(config.sequences_max - 1, -1, -1))
        shape = loaded.shape
        self._facts = EngineFacts(
            model_name=shape.name,
            architecture=shape.architecture,
            vocab_size=shape.vocab,
            context_tokens_max=min(shape.context, config.kv_tokens),
            page_tokens=config.page_tokens,
            num_pages=loaded.memory.num_pages,
            sequences_max=config.sequences_max,
            step_tokens_max=config.step_tokens_max,
            weight_bytes=loaded.weight_bytes,
            kv_bytes_per_token=loaded.layout.bytes_per_token(config.kv_type),
            experts_per_token=shape.experts_used,
            model_experts_per_token=loaded.model_experts_used,
        )

    @property
    def facts(self) -> EngineFacts:
        return self._facts

    @property
    def model(self) -> Model:
        """The architecture, for those who look inside: tests and measurements."""
        return self._loaded.model

    def step(self, request: StepRequest) -> StepResult:
        """Run one step. Raises StepError, and changes nothing, if the request does not fit."""
        began = time.perf_counter()
        self._check(request)
        self._apply(request)
        sampled: list[SampledToken] = []
        if request.entries:
            hidden = self._forward(request.entries)
            sampled = self._sample(request.entries, hidden)
        return StepResult(
            step=request.step,
            sampled=tuple(sampled),
            stats=self._stats(request.entries, time.perf_counter() - began),
        )

    def forward_hidden(self, entries: tuple[StepEntry, ...]) -> Tensor:
        """(tokens, width): run open sequences on and return what the head would be given."""
        request = StepRequest(step=0, entries=entries)
        self._check(request)
        self._apply(request)
        hidden = self._forward(entries).clone()  # the model uses its memory again
        self._forget_use()
        return hidden

    @torch.inference_mode()
    def forward_logits(self, entries: tuple[StepEntry, ...]) -> NDArray[np.float32]:
        """(tokens, vocab): run open sequences on and return logits at every position."""
        return self._loaded.model.logits(self.forward_hidden(entries)).numpy()

    @torch.inference_mode()
    def draft(
        self, sequence: SequenceId, hidden: Tensor, next_tokens: tuple[int, ...], position: int
    ) -> tuple[NDArray[np.float32], Tensor]:
        """Guess two tokens ahead: logits (tokens, vocab) and hidden (tokens, width) to go on from.

        hidden       (tokens, width), the trunk's at `position` and after it, or an earlier draft's
        next_tokens  the token after each of those positions
        Writes keys and values of the draft block alone; the sequence does not move on. Raises
        StepError for a model without a draft block and for positions that have no page.
        """
        model, s = self._loaded.model, self._sequences.get(sequence)
        if model.draft is None:
            raise StepError("this model has no draft block")
        if s is None:
            raise StepError(f"sequence {sequence} is not open")
        count = len(next_tokens)
        if not count or not 0 <= position <= len(s.pages) * self._config.page_tokens - count:
            raise StepError(f"sequence {sequence}: no pages for {count} drafts at {position}")
        span = Span(pages=s.pages, slot=s.slot, first=position, count=count)
        where, memory = places([span], self._config.page_tokens), self._loaded.memory
        wide = model.draft.forward(hidden, torch.tensor(next_tokens), where, memory)
        self._forget_use()
        return model.draft.logits(wide).numpy(), wide

    def pretend(self, sequence: SequenceId, num_tokens: int, new_pages: tuple[int, ...]) -> None:
        """Make a new sequence look `num_tokens` long with random state; for benchmarks."""
        s = self._sequences[sequence]
        assert s.num_tokens == 0, "only a new sequence can pretend"
        self._give(s, new_pages)
        assert num_tokens <= len(s.pages) * self._config.page_tokens, "too few pages"
        self._loaded.memory.randomise(new_pages, s.slot)
        s.num_tokens = num_tokens

    def snapshot(self, sequence: SequenceId) -> Snapshot:
        """Copy the state of an open sequence that lies in no page."""
        s = self._sequences[sequence]
        return Snapshot(num_tokens=s.num_tokens, slot=self._loaded.memory.snapshot(s.slot))

    def restore(
        self, sequence: SequenceId, snapshot: Snapshot, *, new_pages: tuple[int, ...] = ()
    ) -> None:
        """Take an open sequence to where a snapshot was taken, of itself or of another.

        Its pages, to which `new_pages` are added, must hold for these tokens what they held then:
        the sequence has gone on since, or it is new and is given the pages of one that ended.
        Penalties go on counting tokens that were taken back. Raises StepError, and nothing has
        changed, for pages that are in use or too few.
        """
        s = self._sequences[sequence]
        if any(page in self._page_owner for page in new_pages):
            raise StepError(f"sequence {sequence} is given pages that are in use")
        if snapshot.num_tokens > (len(s.pages) + len(new_pages)) * self._config.page_tokens:
            raise StepError(f"sequence {sequence} has no pages for {snapshot.num_tokens} tokens")
        self._give(s, new_pages)
        self._loaded.memory.restore(s.slot, snapshot.slot)
        s.num_tokens = snapshot.num_tokens

    def reset(self) -> None:
        """Release every sequence."""
        self._forget_use()
        self._free_slots.extend(sequence.slot for sequence in self._sequences.values())
        self._sequences.clear()
        self._page_owner.clear()

    def close(self) -> None:
        """Give back memory and files."""
        self.reset()
        self._loaded.model.close()
        self._loaded.file.close()
        if self._trace is not None:
            try:
                self._trace.close()
            except TraceError as error:
                log.error("the end of the routing trace is lost: %s", error)

    def check_invariants(self) -> None:
        """Pages have one owner, and each sequence has pages for what it computed."""
        owned = [(page, s.id) for s in self._sequences.values() for page in s.pages]
        assert len(owned) == len(self._page_owner), "a page has two owners"
        assert dict(owned) == self._page_owner, "page owners disagree"
        slots = sorted([*self._free_slots, *(s.slot for s in self._sequences.values())])
        assert slots == list(range(self._config.sequences_max)), "a slot is lost or has two owners"
        for s in self._sequences.values():
            assert s.num_tokens <= len(s.pages) * self._config.page_tokens, "tokens without a page"

    def _check(self, request: StepRequest) -> None:
        open_now = {id: sequence.seen_by_rules() for id, sequence in self._sequences.items()}
        check_step(request, self._facts, open_now, self._page_owner)

    def _apply(self, request: StepRequest) -> None:
        for released in request.releases:
            sequence = self._sequences.pop(released)
            self._free_slots.append(sequence.slot)
            for page in sequence.pages:
                del self._page_owner[page]
        for start in request.starts:
            slot = self._free_slots.pop()
            self._loaded.memory.clear(slot)
            self._sequences[start.sequence] = Sequence.opened(start, slot)
        for entry in request.entries:
            self._give(self._sequences[entry.sequence], entry.new_pages)

    def _give(self, sequence: Sequence, pages: tuple[int, ...]) -> None:
        sequence.pages.extend(pages)
        self._page_owner.update((page, sequence.id) for page in pages)

    @torch.inference_mode()
    def _forward(self, entries: tuple[StepEntry, ...]) -> Tensor:
        """(tokens, hidden); the sequences have advanced by their entries."""
        spans = []
        for entry in entries:
            sequence = self._sequences[entry.sequence]
            count = len(entry.tokens)
            spans.append(
                Span(pages=sequence.pages, slot=sequence.slot, first=entry.position, count=count)
            )
            sequence.num_tokens += count
            sequence.history.extend(entry.tokens, entry.position)
        ids = torch.tensor([token for entry in entries for token in entry.tokens])
        where = places(spans, self._config.page_tokens)
        return self._loaded.model.forward(ids, where, self._loaded.memory)

    @torch.inference_mode()
    def _sample(self, entries: tuple[StepEntry, ...], hidden: Tensor) -> list[SampledToken]:
        ends = list(accumulate(len(entry.tokens) for entry in entries))
        wanted = [index for index, entry in enumerate(entries) if entry.sample]
        if not wanted:
            return []
        if len(wanted) < ends[-1]:  # in most decode steps it is all of them
            hidden = hidden[[ends[index] - 1 for index in wanted]]
        logits = self._loaded.model.logits(hidden).numpy()
        sampled = []
        for row, index in enumerate(wanted):
            s = self._sequences[entries[index].sequence]
            sampled.append(sample(s.id, logits[row], s.sampling, s.history, s.output_index))
        return sampled

    def _stats(self, entries: tuple[StepEntry, ...], seconds: float) -> StepStats:
        lengths = [len(entry.tokens) for entry in entries]
        model = self._loaded.model
        store, ngram = model.experts, model.ngram_table
        use = store.take_use() if store is not None else None
        if use is not None and self._trace is not None and lengths:
            self._trace_step(lengths, use)
        return StepStats(
            step_seconds=seconds,
            prefill_tokens=sum(n for n in lengths if n > 1),
            decode_tokens=sum(n for n in lengths if n == 1),
            experts_used=use.unique_per_layer if use else 0.0,
            weight_bytes_read=(self._loaded.fixed_bytes_per_step if lengths else 0)
            + (use.bytes_read if use else 0),
            index_seconds=index.take_seconds() if (index := model.index_use) else 0.0,
            ngram_wait_seconds=ngram.take_use().wait_seconds if ngram else 0.0,
        )

    def _trace_step(self, lengths: list[int], use: ExpertUse) -> None:
        """A trace that cannot be written ends; serving goes on without it."""
        assert self._trace is not None
        counts = use.counts[: self._trace.layers]  # without the draft block's
        step = TracedStep(tokens=sum(lengths), decode=max(lengths) == 1, counts=counts)
        try:
            self._trace.add(step)
        except TraceError as error:
            log.error("the routing trace ends here: %s", error)
            self._trace.close()  # what could not be written is no longer in it
            self._trace = None

    def _forget_use(self) -> None:
        """What experts were used outside steps is in nobody's statistics."""
        if (store := self._loaded.model.experts) is not None:
            store.take_use()
