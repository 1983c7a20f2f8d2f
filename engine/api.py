"""The engine as its callers see it: values in, values out; no torch.

Callers are `services.worker` (steps composed by the scheduler) and `engine.local` (steps composed
in this process, for `lamina generate`, `logits` and `bench`). The caller owns pages: it says which
KV pages a sequence may write; the engine owns what is in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NewType, Protocol

SequenceId = NewType("SequenceId", int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the next token of a sequence is chosen. Defaults sample from the plain distribution."""

    temperature: float = 1.0  # 0: greedy
    top_k: int = 0  # 0: off
    top_p: float = 1.0  # 1: off
    min_p: float = 0.0  # 0: off
    repetition_penalty: float = 1.0  # 1: off; over prompt and output
    presence_penalty: float = 0.0  # over output
    frequency_penalty: float = 0.0  # over output
    seed: int = 0  # the draw of output token i depends on (seed, i) alone
    logprobs: int | None = None  # None: none; n: the chosen token and the n best
    logit_bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStart:
    """Opens a sequence; positions from `num_prompt_tokens` on are output, for the penalties."""

    sequence: SequenceId
    sampling: Sampling
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEntry:
    """Tokens of one sequence to compute in a step, at consecutive positions."""

    sequence: SequenceId
    tokens: tuple[int, ...]
    position: int  # of tokens[0]; equals the number of tokens already computed
    new_pages: tuple[int, ...] = ()  # appended to the sequence's page table before the step
    sample: bool = True  # sample after the last token


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequest:
    """One forward pass: releases first, then starts, then entries."""

    step: int
    releases: tuple[SequenceId, ...] = ()
    starts: tuple[SequenceStart, ...] = ()
    entries: tuple[StepEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledToken:
    """One generated token. Log probabilities are natural, before temperature and filters."""

    sequence: SequenceId
    token: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()  # (token, logprob), best first


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStats:
    """What a step cost."""

    step_seconds: float = 0.0
    prefill_tokens: int = 0  # tokens of entries longer than one
    decode_tokens: int = 0
    experts_used: float = 0.0  # unique experts per MoE layer, mean over layers; 0 for dense
    weight_bytes_read: int = 0  # weight bytes this step had to read
    index_seconds: float = 0.0  # of step_seconds, choosing which positions to attend to
    ngram_wait_seconds: float = 0.0  # of step_seconds, standing still for rows of the n-gram table


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Sampled tokens in the order of the entries that asked for one."""

    step: int
    sampled: tuple[SampledToken, ...] = ()
    stats: StepStats = field(default_factory=StepStats)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What a caller needs to compose steps."""

    model_name: str
    architecture: str
    vocab_size: int
    context_tokens_max: int  # longest sequence, prompt and output together
    page_tokens: int  # positions one KV page holds
    num_pages: int
    sequences_max: int  # sequences that may be open at once
    step_tokens_max: int  # tokens one step may compute
    weight_bytes: int
    kv_bytes_per_token: int
    experts_per_token: int = 0  # routed experts that a token uses; 0 for a dense model
    model_experts_per_token: int = 0  # as the file says; another number is another model

    @property
    def approximate(self) -> bool:
        """Whether tokens use another number of experts than the model was made for."""
        return self.experts_per_token != self.model_experts_per_token


class Engine(Protocol):
    """A model ready to run. Not thread-safe: one thread owns it."""

    @property
    def facts(self) -> EngineFacts: ...

    def step(self, request: StepRequest) -> StepResult:
        """Run one step.

        Raises StepError, and nothing was changed, if the request does not fit. Raises NumericsError
        if the model gave NaN or infinity, StorageError if its file could not be read; the step has
        run at least in part then, so its sequences must be released.
        """
        ...

    def reset(self) -> None:
        """Release every sequence."""
        ...

    def close(self) -> None:
        """Give back threads, memory and files. Nothing else may be called afterwards."""
        ...
