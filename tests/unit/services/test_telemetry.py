"""Logs and metrics."""

from __future__ import annotations

import json
import logging
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from services.common import telemetry
from services.scheduler.metrics import SchedulerMetrics
from services.worker.metrics import WorkerMetrics

UNITLESS = {"lamina_scheduler_requests_running", "lamina_scheduler_requests_waiting"}


def test_log_line_is_one_json_object() -> None:
    formatter = telemetry.JsonFormatter("worker")
    record = logging.LogRecord("a.b", logging.INFO, "f", 1, "two\nlines %s", ("x",), None)
    line = formatter.format(record)
    assert "\n" not in line
    fields = json.loads(line)
    assert fields["process"] == "worker"
    assert fields["level"] == "info"
    assert fields["message"] == "two\nlines x"


def test_request_that_a_line_is_about_is_a_field() -> None:
    record = logging.makeLogRecord({"msg": "m", "request_id": "r/0", "attempt": 2, "other": 1})
    fields = json.loads(telemetry.JsonFormatter("x").format(record))
    assert (fields["request_id"], fields["attempt"]) == ("r/0", 2)
    assert "other" not in fields


def test_exception_is_part_of_the_line() -> None:
    try:
        raise ValueError("boom")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "m", (), info)
    assert "boom" in json.loads(telemetry.JsonFormatter("x").format(record))["exception"]


def test_metrics_are_served_on_a_free_port() -> None:
    registry = telemetry.registry("test")
    with telemetry.metrics_endpoint(registry, "127.0.0.1:0") as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    assert 'lamina_build_info{process="test"' in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("0.0.0.0:9090", ("0.0.0.0", "9090")),
        ("[::1]:0", ("::1", "0")),
        (":9090", ("127.0.0.1", "9090")),
    ],
)
def test_addresses(address: str, parts: tuple[str, str]) -> None:
    assert telemetry.split_address(address) == parts


def test_taken_metrics_port_is_named() -> None:
    registry = telemetry.registry("test")
    with telemetry.metrics_endpoint(registry, "127.0.0.1:0") as port:
        with pytest.raises(OSError, match=rf"127\.0\.0\.1:{port}"):
            with telemetry.metrics_endpoint(registry, f"127.0.0.1:{port}"):
                pass


@pytest.mark.parametrize("metrics", [SchedulerMetrics, WorkerMetrics])
def test_series_are_prefixed_and_explained(
    metrics: type[SchedulerMetrics] | type[WorkerMetrics],
) -> None:
    registry = CollectorRegistry()
    metrics(registry)
    families = list(registry.collect())
    assert families
    for family in families:
        assert family.name.startswith(("lamina_scheduler_", "lamina_worker_"))
        assert family.documentation.endswith(".")
