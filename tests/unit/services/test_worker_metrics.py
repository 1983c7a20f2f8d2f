"""What the worker's series say once an engine is ready."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from engine.api import StepStats
from engine.fake import FakeEngine
from services.worker.metrics import WorkerMetrics


@pytest.mark.parametrize(("used", "approximate"), [(10, 0), (9, 1)])
def test_number_of_experts_is_told_and_marked_when_it_is_not_the_models(
    used: int, approximate: int
) -> None:
    registry = CollectorRegistry()
    facts = replace(FakeEngine().facts, experts_per_token=used, model_experts_per_token=10)
    WorkerMetrics(registry).loaded(facts)
    assert registry.get_sample_value("lamina_worker_experts_per_token") == used
    assert registry.get_sample_value("lamina_worker_approximate") == approximate


def test_parts_of_a_step_that_can_stall_it_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry)
    for _ in range(2):
        metrics.step(StepStats(step_seconds=1.0, index_seconds=0.25, ngram_wait_seconds=0.5))
    assert registry.get_sample_value("lamina_worker_index_seconds_total") == 0.5
    assert registry.get_sample_value("lamina_worker_ngram_wait_seconds_total") == 1.0
