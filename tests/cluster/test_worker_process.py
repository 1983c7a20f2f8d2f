"""The worker as a process: what it refuses, how it stops, what it says when it dies."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from helpers.cluster import Answer, Cluster, Process, alone, start
from helpers.eventually import eventually
from helpers.system import DEMO_MODEL
from services.common.errors import NotReady, WorkerLost

FAULTY = "tests.helpers.faulty_worker"


async def refusal(process: Process) -> str:
    """The one line of a process that ended with code 2."""
    assert await process.wait() == 2
    (line,) = (line for line in process.stderr if not line.startswith("{"))
    assert line.startswith("lamina: error: ")
    return line


async def test_truncated_model_is_refused_with_one_line(tmp_path: Path) -> None:
    model = tmp_path / "half.gguf"
    model.write_bytes(DEMO_MODEL.read_bytes()[:5000])
    flags = ("--model", str(model), "--listen", "127.0.0.1:0")
    line = await refusal(await start("services.worker", *flags))
    assert "half.gguf: truncated" in line


async def test_cache_that_cannot_be_had_is_refused_with_one_line() -> None:
    flags = ("--model", str(DEMO_MODEL), "--listen", "127.0.0.1:0", "--kv-tokens", "999999999")
    assert "MiB" in await refusal(await start("services.worker", *flags))


@pytest.mark.parametrize(
    ("module", "flags"),
    [("services.worker", ("--model", "fake:")), ("services.scheduler", ("--worker", "unix:none"))],
)
async def test_taken_metrics_port_is_refused_with_one_line(
    module: str, flags: tuple[str, ...]
) -> None:
    first = await start(module, *flags, "--listen", "127.0.0.1:0")
    try:
        address = f"127.0.0.1:{await first.metrics_port()}"
        more = ("--listen", "127.0.0.1:0", "--metrics-listen", address)
        assert address in await refusal(await start(module, *flags, *more))
    finally:
        await first.kill()


@pytest.mark.parametrize("model", ["loading:", "stuck:"])
async def test_worker_stops_while_it_loads(tmp_path: Path, model: str) -> None:
    address = f"unix:{tmp_path}/w.sock"
    worker = await start(FAULTY, "--model", model, "--listen", address)
    await worker.until_says("listening")
    assert await worker.stop() == 0


async def test_scheduler_is_not_ready_while_its_worker_loads(tmp_path: Path) -> None:
    async with Cluster.open(
        tmp_path, model="loading:", module=FAULTY, until_serving=False
    ) as cluster:
        assert cluster.scheduler is not None
        await cluster.scheduler.until_says("the model is loading")
        answer = await cluster.submit([1])
        lines = [line for line in cluster.scheduler.stderr if "the model is loading" in line]
    assert isinstance(answer.error, NotReady)
    assert len(lines) == 1


async def test_fault_of_the_engine_ends_the_worker_and_is_logged(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path, model="fault:20", module=FAULTY) as cluster:
        answer = await cluster.submit([1, 2], max_tokens=100)
        assert cluster.worker is not None
        assert await cluster.worker.wait() == 1
        records = [json.loads(line) for line in cluster.worker.stderr]
    assert isinstance(answer.error, WorkerLost)
    assert answer.tokens == alone([1, 2], 19, 0)
    last = records[-1]
    assert (last["level"], last["message"]) == ("critical", "the engine died")
    assert "a fault in the engine" in last["exception"]


async def test_worker_told_to_stop_finishes_what_is_open(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path) as cluster:
        answer = Answer()
        task = asyncio.create_task(cluster.submit([1], max_tokens=600, answer=answer))
        await eventually(lambda: answer.tokens)
        assert cluster.worker is not None
        cluster.worker.child.send_signal(signal.SIGTERM)
        await task
        assert await cluster.worker.wait() == 0
        await cluster.until_serving(False)
    assert answer.error is None
    assert answer.tokens == alone([1], 600, 0)


async def test_worker_that_drains_too_long_cuts_off_and_says_so(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path, worker=("--drain-seconds", "0.1")) as cluster:
        task, answer = await cluster.begun()
        assert cluster.worker is not None
        assert await cluster.worker.stop() == 3
        await task
    assert isinstance(answer.error, WorkerLost)


async def test_metrics_count_what_was_done(tmp_path: Path) -> None:
    async with Cluster.open(tmp_path) as cluster:
        await asyncio.gather(*(cluster.submit([1, 2, 3], max_tokens=5) for _ in range(4)))
        assert cluster.scheduler is not None
        assert cluster.worker is not None
        scheduler, worker = await cluster.scheduler.metrics(), await cluster.worker.metrics()
    assert scheduler["lamina_scheduler_generated_tokens_total"] == 20
    assert scheduler["lamina_scheduler_prompt_tokens_total"] == 12
    assert scheduler['lamina_scheduler_requests_finished_total{reason="length"}'] == 4
    assert scheduler["lamina_scheduler_kv_cache_usage_ratio"] == 0
    assert worker['lamina_worker_step_tokens_total{phase="prefill"}'] == 12
    assert worker['lamina_worker_step_tokens_total{phase="decode"}'] == 16
    assert worker["lamina_worker_kv_pages"] == 1024
