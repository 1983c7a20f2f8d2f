"""The scheduler as a process beside a worker that lies, or that was taken from it."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

from helpers.cluster import Cluster, Process
from helpers.eventually import eventually
from helpers.scripted_worker import TOKEN, right_answer, scripted_worker
from services.common.errors import Draining, Internal, NotReady, StaleLease, WorkerLost
from services.pb import worker_pb2 as pb


def severe(process: Process) -> list[dict[str, Any]]:
    """What it logged as an error or worse."""
    records = [json.loads(line) for line in process.stderr]
    return [record for record in records if record["level"] in ("error", "critical")]


async def test_result_of_a_step_not_sent_ends_the_scheduler(tmp_path: Path) -> None:
    def lie(request: pb.StepRequest) -> pb.StepResult:
        return pb.StepResult(step=request.step + 5)

    async with Cluster.beside(tmp_path) as cluster, scripted_worker(cluster.worker_address, lie):
        scheduler = await cluster.start_scheduler()
        await cluster.until_serving(True)
        answer = await cluster.submit([1])
        assert await scheduler.wait() == 1
    assert isinstance(answer.error, Internal)
    incident, death = severe(scheduler)
    assert incident["message"] == f"incident {answer.error.incident_id}"
    assert death["message"] == "the scheduler died"
    assert all("step 6 is done, 1 was sent" in each["exception"] for each in (incident, death))


class Robbed:
    """A worker that another scheduler takes over when `now` is set."""

    def __init__(self) -> None:
        self.now = False

    def __call__(self, request: pb.StepRequest) -> pb.StepResult:
        if self.now:
            raise StaleLease("another scheduler took over this worker")
        return right_answer(request)


async def test_takeover_ends_open_streams_with_worker_lost(tmp_path: Path) -> None:
    worker = Robbed()
    async with Cluster.beside(tmp_path) as cluster, scripted_worker(cluster.worker_address, worker):
        scheduler = await cluster.start_scheduler()
        await cluster.until_serving(True)
        task, answer = await cluster.begun()
        worker.now = True
        await task
        assert await scheduler.wait() == 1
    assert isinstance(answer.error, WorkerLost)
    assert "took over" not in answer.error.message, "the client is not to know of our leases"
    assert "while it computed" in answer.error.message
    assert set(answer.tokens) == {TOKEN}
    assert "took over" in severe(scheduler)[0]["message"]


async def test_takeover_while_it_drains_does_not_wait_for_the_end(tmp_path: Path) -> None:
    worker = Robbed()
    async with Cluster.beside(tmp_path) as cluster, scripted_worker(cluster.worker_address, worker):
        scheduler = await cluster.start_scheduler("--drain-seconds", "600")
        await cluster.until_serving(True)
        task, answer = await cluster.begun()
        scheduler.child.send_signal(signal.SIGTERM)
        await cluster.until_serving(False)
        before = len(answer.tokens)
        await eventually(lambda: len(answer.tokens) > before)  # it goes on while it drains
        worker.now = True
        await asyncio.wait_for(task, 10)
        assert await scheduler.wait() == 1
    assert isinstance(answer.error, WorkerLost)


async def test_worker_without_room_is_not_used(tmp_path: Path) -> None:
    worker = scripted_worker(f"unix:{tmp_path}/w.sock", right_answer, page_tokens=0)
    async with Cluster.beside(tmp_path) as cluster, worker:
        scheduler = await cluster.start_scheduler()
        await scheduler.until_says("page_tokens is 0")
        answer = await cluster.submit([1])
    assert isinstance(answer.error, NotReady)


async def test_drain_that_takes_too_long_says_to_each_client_what_became_of_its_request(
    tmp_path: Path,
) -> None:
    flags = ("--sequences-max", "1")
    async with Cluster.open(
        tmp_path, worker=flags, scheduler=("--drain-seconds", "0.2")
    ) as cluster:
        task, answer = await cluster.begun()
        waiting = asyncio.create_task(cluster.submit([9]))
        scheduler = cluster.scheduler
        assert scheduler is not None
        await eventually_waiting(scheduler)
        assert await scheduler.stop() == 3
        await task
        never_began = (await waiting).error
    assert isinstance(answer.error, WorkerLost)
    assert isinstance(never_began, Draining)
    assert severe(scheduler) == []
    (warning,) = (line for line in map(json.loads, scheduler.stderr) if line["level"] == "warning")
    assert (warning["request_id"], warning["attempt"]) == ("test", 1)


async def eventually_waiting(scheduler: Process) -> None:
    async with asyncio.timeout(10):
        while (await scheduler.metrics())["lamina_scheduler_requests_waiting"] != 1:
            await eventually(lambda: True)
