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

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.api import (
    EngineFacts,
    SampledToken,
    SequenceId,
    SequenceStart,
    StepEntry,
    StepRequest,
    StepResult,
    StepStats,
)
from engine.config import EngineConfig, kv_bytes_per_token
from engine.errors import StepError
from engine.gguf.reader import GGUFModel
from engine.gguf.shape import ModelShape
from engine.kv.pool import KVPool
from engine.kv.tables import Span, places
from engine.model.registry import Model
from engine.sampler import impossible, sample
from engine.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """An architecture ready to run, with what it was made from."""

    file: GGUFModel
    shape: ModelShape
    model: Model
    pool: KVPool
    weight_bytes: int
    fixed_bytes_per_step: int  # weights that every step reads: all but routed experts


class ModelEngine:
    """A model and its open sequences. One thread owns it."""

    def __init__(self, loaded: LoadedModel, config: EngineConfig) -> None:
        self._loaded = loaded
        self._config = config
        self._sequences: dict[SequenceId, Sequence] = {}
        self._page_owner: dict[int, SequenceId] = {}
        shape = loaded.shape
        self._facts = EngineFacts(
            model_name=shape.name,
            architecture=shape.architecture,
            vocab_size=shape.vocab,
            context_tokens_max=min(shape.context, config.kv_tokens),
            page_tokens=config.page_tokens,
            num_pages=loaded.pool.num_pages,
            sequences_max=config.sequences_max,
            step_tokens_max=config.step_tokens_max,
            weight_bytes=loaded.weight_bytes,
            kv_bytes_per_token=kv_bytes_per_token(shape, config.kv_type),
        )

    @property
    def facts(self) -> EngineFacts:
        return self._facts

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

    def forward_logits(self, entries: tuple[StepEntry, ...]) -> NDArray[np.float32]:
        """(tokens, vocab): run open sequences on and return logits at every position."""
        request = StepRequest(step=0, entries=entries)
        self._check(request)
        self._apply(request)
        logits = self._loaded.model.logits(self._forward(entries))
        return logits.numpy()

    def reset(self) -> None:
        """Release every sequence."""
        self._sequences.clear()
        self._page_owner.clear()

    def close(self) -> None:
        """Give back memory and files."""
        self.reset()
        self._loaded.file.close()

    def check_invariants(self) -> None:
        """Pages have one owner, and each sequence has pages for what it computed."""
        owned = [(page, s.id) for s in self._sequences.values() for page in s.pages]
        assert len(owned) == len(self._page_owner), "a page has two owners"
        assert dict(owned) == self._page_owner, "page owners disagree"
        for s in self._sequences.values():
            assert s.num_tokens <= len(s.pages) * self._config.page_tokens, "tokens without a page"

    def _check(self, request: StepRequest) -> None:
        """Everything that could be wrong with a request, before anything changes."""
        for released in request.releases:
            if released not in self._sequences:
                raise StepError(f"sequence {released} is released but not open")
        if len(set(request.releases)) != len(request.releases):
            raise StepError("a sequence is released twice")
        open_now = self._sequences.keys() - set(request.releases)
        for start in request.starts:
            if start.sequence in open_now:
                raise StepError(f"sequence {start.sequence} is started but open already")
            self._check_start(start)
        opened = {start.sequence: start for start in request.starts}
        if len(opened) != len(request.starts):
            raise StepError("a sequence is started twice")
        if len(open_now) + len(opened) > self._config.sequences_max:
            raise StepError(f"more than {self._config.sequences_max} sequences")
        if len({entry.sequence for entry in request.entries}) != len(request.entries):
            raise StepError("a sequence has two entries")
        num_tokens = sum(len(entry.tokens) for entry in request.entries)
        if num_tokens > self._config.step_tokens_max:
            limit = self._config.step_tokens_max
            raise StepError(f"a step of {num_tokens} tokens, {limit} is the most")
        self._check_pages(request, set(request.releases))
        for entry in request.entries:
            if entry.sequence in open_now:
                self._check_entry(entry, self._sequences[entry.sequence])
            elif entry.sequence in opened:
                self._check_entry(entry, Sequence.opened(opened[entry.sequence]))
            else:
                raise StepError(f"sequence {entry.sequence} is not open")

    def _check_start(self, start: SequenceStart) -> None:
        if start.num_prompt_tokens < 1:
            raise StepError(f"sequence {start.sequence} has no prompt")
        if (name := impossible(start.sampling, self._facts.vocab_size)) is not None:
            raise StepError(f"sequence {start.sequence}: sampling with an impossible {name}")

    def _check_pages(self, request: StepRequest, released: set[SequenceId]) -> None:
        granted: set[int] = set()
        for entry in request.entries:
            for page in entry.new_pages:
                owner = self._page_owner.get(page)
                if not 0 <= page < self._facts.num_pages:
                    raise StepError(f"sequence {entry.sequence}: no page {page}")
                if page in granted or (owner is not None and owner not in released):
                    raise StepError(f"sequence {entry.sequence}: page {page} is in use")
                granted.add(page)

    def _check_entry(self, entry: StepEntry, sequence: Sequence) -> None:
        name = f"sequence {entry.sequence}"
        computed = sequence.num_tokens
        num_pages = len(sequence.pages) + len(entry.new_pages)
        end = entry.position + len(entry.tokens)
        if not entry.tokens:
            raise StepError(f"{name}: an entry without tokens")
        if entry.position != computed:
            raise StepError(f"{name}: position {entry.position}, but {computed} are computed")
        if end > self._facts.context_tokens_max:
            raise StepError(
                f"{name}: {end} tokens, the context is {self._facts.context_tokens_max}"
            )
        if end > num_pages * self._config.page_tokens:
            raise StepError(f"{name}: {end} tokens do not fit {num_pages} pages")
        if entry.sample and end < sequence.history.num_prompt_tokens:
            raise StepError(f"{name}: sampled at {end}, inside its prompt")
        if not 0 <= min(entry.tokens) <= max(entry.tokens) < self._facts.vocab_size:
            raise StepError(f"{name}: a token outside the vocabulary of {self._facts.vocab_size}")

    def _apply(self, request: StepRequest) -> None:
        for released in request.releases:
            for page in self._sequences.pop(released).pages:
                del self._page_owner[page]
        for start in request.starts:
            self._sequences[start.sequence] = Sequence.opened(start)
        for entry in request.entries:
            self._sequences[entry.sequence].pages.extend(entry.new_pages)
            self._page_owner.update((page, entry.sequence) for page in entry.new_pages)

    @torch.inference_mode()
    def _forward(self, entries: tuple[StepEntry, ...]) -> Tensor:
        """(tokens, hidden); the sequences have advanced by their entries."""
        spans = []
        for entry in entries:
            sequence = self._sequences[entry.sequence]
            count = len(entry.tokens)
            spans.append(Span(pages=sequence.pages, first=entry.position, count=count))
            sequence.num_tokens += count
            sequence.history.extend(entry.tokens, entry.position)
        ids = torch.tensor([token for entry in entries for token in entry.tokens])
        where = places(spans, self._config.page_tokens)
        return self._loaded.model.forward(ids, where, self._loaded.pool)

    @torch.inference_mode()
    def _sample(self, entries: tuple[StepEntry, ...], hidden: Tensor) -> list[SampledToken]:
        ends = np.cumsum([len(entry.tokens) for entry in entries]) - 1
        wanted = [index for index, entry in enumerate(entries) if entry.sample]
        if not wanted:
            return []
        logits = self._loaded.model.logits(hidden[ends[wanted]]).numpy()
        sampled = []
        for row, index in enumerate(wanted):
            s = self._sequences[entries[index].sequence]
            sampled.append(sample(s.id, logits[row], s.sampling, s.history, s.output_index))
        return sampled

    def _stats(self, entries: tuple[StepEntry, ...], seconds: float) -> StepStats:
        lengths = [len(entry.tokens) for entry in entries]
        store = self._loaded.model.experts
        use = store.take_use() if store is not None else None
        return StepStats(
            step_seconds=seconds,
            prefill_tokens=sum(n for n in lengths if n > 1),
            decode_tokens=sum(n for n in lengths if n == 1),
            experts_used=use.unique_experts / use.layers if use and use.layers else 0.0,
            weight_bytes_read=(self._loaded.fixed_bytes_per_step if lengths else 0)
            + (use.bytes_read if use else 0),
        )
