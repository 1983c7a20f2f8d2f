from services.pb import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerDescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkerDescription(_message.Message):
    __slots__ = ("model_name", "architecture", "vocab_size", "context_tokens_max", "page_tokens", "num_pages", "sequences_max", "step_tokens_max", "weight_bytes", "kv_bytes_per_token", "experts_per_token", "model_experts_per_token")
    MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKENS_MAX_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_PAGES_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_MAX_FIELD_NUMBER: _ClassVar[int]
    STEP_TOKENS_MAX_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    KV_BYTES_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPERTS_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MODEL_EXPERTS_PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    model_name: str
    architecture: str
    vocab_size: int
    context_tokens_max: int
    page_tokens: int
    num_pages: int
    sequences_max: int
    step_tokens_max: int
    weight_bytes: int
    kv_bytes_per_token: int
    experts_per_token: int
    model_experts_per_token: int
    def __init__(self, model_name: _Optional[str] = ..., architecture: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_tokens_max: _Optional[int] = ..., page_tokens: _Optional[int] = ..., num_pages: _Optional[int] = ..., sequences_max: _Optional[int] = ..., step_tokens_max: _Optional[int] = ..., weight_bytes: _Optional[int] = ..., kv_bytes_per_token: _Optional[int] = ..., experts_per_token: _Optional[int] = ..., model_experts_per_token: _Optional[int] = ...) -> None: ...

class SequenceStart(_message.Message):
    __slots__ = ("sequence", "sampling", "num_prompt_tokens")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    NUM_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    sampling: _common_pb2.Sampling
    num_prompt_tokens: int
    def __init__(self, sequence: _Optional[int] = ..., sampling: _Optional[_Union[_common_pb2.Sampling, _Mapping]] = ..., num_prompt_tokens: _Optional[int] = ...) -> None: ...

class StepEntry(_message.Message):
    __slots__ = ("sequence", "tokens", "position", "new_pages", "sample")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NEW_PAGES_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    position: int
    new_pages: _containers.RepeatedScalarFieldContainer[int]
    sample: bool
    def __init__(self, sequence: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., position: _Optional[int] = ..., new_pages: _Optional[_Iterable[int]] = ..., sample: _Optional[bool] = ...) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ("step", "releases", "starts", "entries")
    STEP_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    step: int
    releases: _containers.RepeatedScalarFieldContainer[int]
    starts: _containers.RepeatedCompositeFieldContainer[SequenceStart]
    entries: _containers.RepeatedCompositeFieldContainer[StepEntry]
    def __init__(self, step: _Optional[int] = ..., releases: _Optional[_Iterable[int]] = ..., starts: _Optional[_Iterable[_Union[SequenceStart, _Mapping]]] = ..., entries: _Optional[_Iterable[_Union[StepEntry, _Mapping]]] = ...) -> None: ...

class SampledToken(_message.Message):
    __slots__ = ("sequence", "token")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    token: _common_pb2.Token
    def __init__(self, sequence: _Optional[int] = ..., token: _Optional[_Union[_common_pb2.Token, _Mapping]] = ...) -> None: ...

class StepStats(_message.Message):
    __slots__ = ("step_seconds", "prefill_tokens", "decode_tokens", "experts_used", "weight_bytes_read")
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PREFILL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DECODE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EXPERTS_USED_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_BYTES_READ_FIELD_NUMBER: _ClassVar[int]
    step_seconds: float
    prefill_tokens: int
    decode_tokens: int
    experts_used: float
    weight_bytes_read: int
    def __init__(self, step_seconds: _Optional[float] = ..., prefill_tokens: _Optional[int] = ..., decode_tokens: _Optional[int] = ..., experts_used: _Optional[float] = ..., weight_bytes_read: _Optional[int] = ...) -> None: ...

class StepResult(_message.Message):
    __slots__ = ("step", "sampled", "stats")
    STEP_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    step: int
    sampled: _containers.RepeatedCompositeFieldContainer[SampledToken]
    stats: StepStats
    def __init__(self, step: _Optional[int] = ..., sampled: _Optional[_Iterable[_Union[SampledToken, _Mapping]]] = ..., stats: _Optional[_Union[StepStats, _Mapping]] = ...) -> None: ...
