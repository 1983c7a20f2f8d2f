"""What the gateway counts: names, units and help text of its metrics.

One `Metrics` per process, made by `app.Gateway` on a registry of its own and shown at /metrics.
Source of the bucket bounds: the long-tailed ones of vLLM's metrics, which dashboards expect; an
offloaded model needs the tails.
"""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.common.telemetry import SECONDS_BUCKETS
from services.gateway.pieces import Piece, Usage

# fmt: off
INTER_TOKEN_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
    1, 2.5, 5, 7.5, 10, 20, 40, 80,
)
REQUEST_BUCKETS = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60,
    120, 240, 480, 960, 1920, 7680,
)
# fmt: on


class Metrics:
    """The gateway's series, all prefixed `lamina_gateway_`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            "lamina_gateway_requests",
            "Requests answered, by endpoint and HTTP status; 499: the client left first.",
            ["endpoint", "status"],
            registry=registry,
        )
        self.first_token_seconds = Histogram(
            "lamina_gateway_time_to_first_token_seconds",
            "From the arrival of a request to its first generated token.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self.inter_token_seconds = Histogram(
            "lamina_gateway_inter_token_latency_seconds",
            "Between tokens of a choice; tokens that come together share the time.",
            buckets=INTER_TOKEN_BUCKETS,
            registry=registry,
        )
        self.request_seconds = Histogram(
            "lamina_gateway_e2e_request_latency_seconds",
            "From the arrival of a request to the end of its answer, successful ones only.",
            buckets=REQUEST_BUCKETS,
            registry=registry,
        )
        self.prompt_tokens = Counter(
            "lamina_gateway_prompt_tokens",
            "Prompt tokens of requests that were answered to the end.",
            registry=registry,
        )
        self.completion_tokens = Counter(
            "lamina_gateway_completion_tokens",
            "Generated tokens that arrived.",
            registry=registry,
        )
        self.requests_open = Gauge(
            "lamina_gateway_requests_open",
            "Generation requests being answered, streamed or not.",
            registry=registry,
        )
        self.streams_open = Gauge(
            "lamina_gateway_streams_open",
            "Generation requests being answered as streams.",
            registry=registry,
        )
        self.cancelled = Counter(
            "lamina_gateway_cancelled",
            "Generation requests whose client left, or stopped reading, before the end.",
            registry=registry,
        )


class Stopwatch:
    """Observes the pieces of one request against the clock; made when the request arrives."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._arrival = time.perf_counter()
        self._last: dict[int, float] = {}  # choice to the time of its last token

    def see(self, piece: Piece) -> None:
        """A piece has come."""
        if piece.num_tokens == 0:
            return
        now = time.perf_counter()
        metrics = self._metrics
        metrics.completion_tokens.inc(piece.num_tokens)
        if not self._last:
            metrics.first_token_seconds.observe(now - self._arrival)
        if piece.choice in self._last:
            gap = (now - self._last[piece.choice]) / piece.num_tokens
            for _ in range(piece.num_tokens):
                metrics.inter_token_seconds.observe(gap)
        self._last[piece.choice] = now

    def end(self, usage: Usage) -> None:
        """The request has ended well."""
        self._metrics.prompt_tokens.inc(usage.prompt_tokens)
        self._metrics.request_seconds.observe(time.perf_counter() - self._arrival)
