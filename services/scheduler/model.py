"""The values that go into the scheduler's core and come out of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NewType, TypeAlias

RequestKey = NewType("RequestKey", int)  # one Submit call


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """What the core plans with; from Worker.Describe."""

    vocab_size: int
    context_tokens_max: int
    page_tokens: int
    num_pages: int
    sequences_max: int
    step_tokens_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asked for. The core reads neither `sampling` nor what identifies it."""

    key: RequestKey
    prompt: tuple[int, ...]
    max_tokens: int
    stop_tokens: frozenset[int]
    sampling: object
    request_id: str = ""  # of the client's request, for logs
    attempt: int = 1


class Reason(Enum):
    """Why a request ended well."""

    STOP = "stop"
    LENGTH = "length"


class Refusal(Enum):
    """Why a request was refused or ended badly; the shell makes an error of it."""

    INVALID = "invalid"
    OVERLOADED = "overloaded"
    NOT_READY = "not_ready"
    DRAINING = "draining"
    WORKER_LOST = "worker_lost"


# Events


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerUp:
    """A worker is connected and holds no sequences."""

    facts: WorkerFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDown:
    """The connection broke; what ran on it is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A client asks."""

    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The client went away, or its deadline passed."""

    key: RequestKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One token of a step. `token` is the worker's message, passed on unread."""

    sequence: int
    id: int
    token: object


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    """The step in flight is computed."""

    step: int
    sampled: tuple[Sampled, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Take no new requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Take no new requests, and end those there are: the time to finish them is over."""


Event: TypeAlias = WorkerUp | WorkerDown | Submitted | Cancelled | StepDone | Drain | GiveUp


# Actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Open a sequence on the worker."""

    sequence: int
    sampling: object
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Tokens of a sequence to compute."""

    sequence: int
    tokens: tuple[int, ...]
    position: int
    new_pages: tuple[int, ...]
    sample: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStep:
    """Send a step to the worker."""

    step: int
    releases: tuple[int, ...]
    starts: tuple[Start, ...]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """Send a token to the client."""

    key: RequestKey
    token: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a request cost."""

    prompt_tokens: int
    completion_tokens: int
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The request ended well; the last token was emitted before."""

    key: RequestKey
    reason: Reason
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The request ends with an error; `began`: after it was computed in part."""

    key: RequestKey
    refusal: Refusal
    message: str
    param: str = ""
    retry_after_ms: int = 0
    began: bool = False


Action: TypeAlias = SendStep | Emit | Finish | Refuse


# State


@dataclass(slots=True, eq=False)
class Sequence:
    """A request on its way. `tokens`: prompt and output; `computed` of them are on the worker."""

    request: Request
    arrived: float
    tokens: list[int] = field(default_factory=list)
    id: int = 0  # of the sequence on the worker; 0 while it waits
    pages: list[int] = field(default_factory=list)
    pages_sent: int = 0  # of `pages`, those the worker knows of
    computed: int = 0
    started: float | None = None
    first_token: float | None = None

    @property
    def key(self) -> RequestKey:
        return self.request.key

    @property
    def num_output(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def remaining(self) -> int:
        """Tokens still to be computed before the next can be sampled."""
        return len(self.tokens) - self.computed
