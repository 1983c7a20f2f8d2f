"""What the worker's series say once an engine is ready."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

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
