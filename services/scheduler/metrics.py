"""The scheduler's Prometheus series: names, units and help in one place."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.common.telemetry import SECONDS_BUCKETS

TOKEN_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class SchedulerMetrics:
    """One set per process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"lamina_scheduler_{name}", help, labels, registry=registry)

        def gauge(name: str, help: str) -> Gauge:
            return Gauge(f"lamina_scheduler_{name}", help, registry=registry)

        def histogram(name: str, help: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"lamina_scheduler_{name}", help, buckets=buckets, registry=registry)

        self.running = gauge("requests_running", "Requests whose sequence is on the worker.")
        self.waiting = gauge("requests_waiting", "Requests in the queue.")
        self.kv_usage = gauge("kv_cache_usage_ratio", "Fraction of KV pages held, 0-1.")
        self.worker_up = gauge("worker_connected", "1 while the worker is connected.")
        self.prompt_tokens = counter("prompt_tokens", "Prompt tokens of finished requests.")
        self.generated_tokens = counter("generated_tokens", "Tokens sent to clients.")
        self.preemptions = counter("preemptions", "Sequences that lost their pages for a while.")
        self.finished = counter("requests_finished", "Requests that ended well.", ("reason",))
        self.failed = counter("requests_failed", "Requests that ended otherwise.", ("reason",))
        self.rejections = counter("admission_rejections", "Requests that never began.", ("reason",))
        for series, reasons in (
            (self.finished, ("stop", "length")),
            (self.failed, ("cancelled", "slow_client", "worker_lost")),
            (self.rejections, ("invalid", "overloaded", "not_ready", "draining")),
        ):
            for reason in reasons:  # so that a rate has a zero to start from
                series.labels(reason=reason)
        self.queue_seconds = histogram(
            "request_queue_time_seconds", "From arrival to the first step.", SECONDS_BUCKETS
        )
        self.prefill_seconds = histogram(
            "request_prefill_time_seconds", "From the first step to the token.", SECONDS_BUCKETS
        )
        self.decode_seconds = histogram(
            "request_decode_time_seconds", "From the first token to the last.", SECONDS_BUCKETS
        )
        self.step_tokens = histogram("step_tokens", "Tokens of a step.", TOKEN_BUCKETS)
        self.step_seconds = histogram(
            "step_round_trip_seconds", "From sending a step to its result.", SECONDS_BUCKETS
        )
