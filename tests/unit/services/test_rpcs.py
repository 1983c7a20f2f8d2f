"""Every RPC of ours has a handler, and every call of one a deadline."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import ServiceDescriptor

from services.pb import scheduler_pb2, worker_pb2
from services.scheduler.server import SchedulerService
from services.worker.server import WorkerService

SERVICES = Path(__file__).resolve().parents[3] / "services"
HANDLERS = {
    scheduler_pb2.DESCRIPTOR.services_by_name["Scheduler"]: SchedulerService,
    worker_pb2.DESCRIPTOR.services_by_name["Worker"]: WorkerService,
}
WITHOUT_DEADLINE = {"Run"}  # it lives as long as both ends
RPCS = {method.name for service in HANDLERS for method in service.methods}


@pytest.mark.parametrize(("service", "handler"), HANDLERS.items())
def test_service_has_a_handler_for_each_rpc(service: ServiceDescriptor, handler: type) -> None:
    assert {method.name for method in service.methods} <= vars(handler).keys()


def calls_without_deadline(tree: ast.AST) -> Iterator[str]:
    """`stub.Rpc(…)` without `timeout=`; `rpc.unary(stub.Rpc, …)` demands one by its signature."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in RPCS and all(k.arg != "timeout" for k in node.keywords):
                yield node.func.attr


def test_calls_have_deadlines() -> None:
    found: set[str] = set()
    for path in SERVICES.rglob("*.py"):
        if path.parent.name != "pb":
            found.update(calls_without_deadline(ast.parse(path.read_text())))
    assert found == WITHOUT_DEADLINE
