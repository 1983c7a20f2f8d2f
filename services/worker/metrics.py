"""The worker's Prometheus series: names, units and help in one place."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from engine.api import EngineFacts, StepStats
from services.common.telemetry import SECONDS_BUCKETS

EXPERT_BUCKETS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
PHASES = ("prefill", "decode")


class WorkerMetrics:
    """One set per process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"lamina_worker_{name}", help, registry=registry)

        self._kv_pages = gauge("kv_pages", "KV pages of this worker.")
        self._kv_pages_used = gauge("kv_pages_used", "KV pages that sequences hold.")
        self._sequences_open = gauge("sequences_open", "Sequences open on this worker.")
        self._weight_bytes = gauge("weight_bytes", "Bytes of weights this worker holds.")
        self._experts_per_token = gauge("experts_per_token", "Routed experts that a token uses.")
        self._approximate = gauge(
            "approximate", "1 when tokens use another number of experts than the model's, else 0."
        )
        self._step_seconds = Histogram(
            *("lamina_worker_step_seconds", "Time to compute a step."),
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._step_tokens = Counter(
            *("lamina_worker_step_tokens", "Tokens computed.", ("phase",)), registry=registry
        )
        self._experts_used = Histogram(
            *("lamina_worker_experts_used", "Unique experts of a step, mean over layers."),
            buckets=EXPERT_BUCKETS,
            registry=registry,
        )
        for phase in PHASES:  # so that a rate has a zero to start from
            self._step_tokens.labels(phase=phase)
        self._bytes_read = Counter(
            *("lamina_worker_weight_bytes_read", "Weight bytes that steps had to read."),
            registry=registry,
        )

        self._index_seconds = Counter(
            *("lamina_worker_index_seconds", "Steps' time choosing positions to attend to."),
            registry=registry,
        )
        self._ngram_wait_seconds = Counter(
            *("lamina_worker_ngram_wait_seconds", "Steps' time waiting for n-gram table rows."),
            registry=registry,
        )

    def loaded(self, facts: EngineFacts) -> None:
        """The engine is ready."""
        self._kv_pages.set(facts.num_pages)
        self._weight_bytes.set(facts.weight_bytes)
        self._experts_per_token.set(facts.experts_per_token)
        self._approximate.set(facts.approximate)

    def sequences(self, num_open: int, num_pages: int) -> None:
        """What is open after a step, or after a stream ended."""
        self._sequences_open.set(num_open)
        self._kv_pages_used.set(num_pages)

    def step(self, stats: StepStats) -> None:
        """A step was computed."""
        self._step_seconds.observe(stats.step_seconds)
        self._step_tokens.labels(phase="prefill").inc(stats.prefill_tokens)
        self._step_tokens.labels(phase="decode").inc(stats.decode_tokens)
        self._bytes_read.inc(stats.weight_bytes_read)
        self._index_seconds.inc(stats.index_seconds)
        self._ngram_wait_seconds.inc(stats.ngram_wait_seconds)
        if stats.experts_used:
            self._experts_used.observe(stats.experts_used)
