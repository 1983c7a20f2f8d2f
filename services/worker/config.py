"""Configuration of a worker process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.config import EngineConfig
from services.common.config import count, count_or_auto, flag, log_level, one_of, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """Host one engine and run the steps that a scheduler sends."""

    model: Path = flag("GGUF file, or fake: for an engine without a model", kind=Path)
    listen: str = flag("address to serve on, host:port or unix:path")
    metrics_listen: str = flag("host:port of /metrics; port 0: any", default="127.0.0.1:0")
    threads: int = flag("compute threads; 0: all cores", default=0, kind=count_or_auto)
    ngram_table: Path | None = flag(
        "file of the n-gram table, if it is not the model's", default=None, kind=Path
    )
    mtp: Path | None = flag("file of the draft (MTP) block, likewise", default=None, kind=Path)
    experts_per_token: int = flag(
        "experts a token uses; 0: as the model says", default=0, kind=count_or_auto
    )
    activations: str = flag(
        "how activations meet weights", default="int8", kind=one_of("int8", "f32")
    )
    kv_tokens: int = flag("positions of KV cache; 0: auto", default=0, kind=count_or_auto)
    kv_type: str = flag("type of the KV cache", default="auto", kind=one_of("auto", "f32", "f16"))
    step_tokens_max: int = flag("tokens of a step", default=256, kind=count)
    sequences_max: int = flag("sequences open at once; 0: auto", default=0, kind=count_or_auto)
    expert_trace: Path | None = flag(
        "append which experts each step used to this file", default=None, kind=Path
    )
    drain_seconds: float = flag("to finish on SIGTERM", default=30.0, kind=seconds)
    log_level: str = flag("debug, info, warning or error", default="info", kind=log_level)

    @property
    def engine(self) -> EngineConfig:
        """The engine's own section."""
        return EngineConfig(
            model=self.model,
            ngram_table=self.ngram_table,
            draft_model=self.mtp,
            experts_per_token=self.experts_per_token,
            activations=self.activations,
            threads=self.threads,
            kv_tokens=self.kv_tokens,
            kv_type=self.kv_type,
            step_tokens_max=self.step_tokens_max,
            sequences_max=self.sequences_max,
            expert_trace=self.expert_trace,
        )
