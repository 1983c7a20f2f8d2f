"""The gateway as a process: how it says where it is, how it stops, how it refuses to start."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from engine.text.load import load_text
from helpers.eventually import POLL_SECONDS, eventually
from helpers.fake_scheduler import FakeScheduler
from helpers.text_model import write_text_model

Process = asyncio.subprocess.Process


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_text_model(tmp_path / "wordy.gguf")


@pytest.fixture
async def scheduler(model: Path) -> AsyncIterator[FakeScheduler]:
    async with FakeScheduler.serve(vocab_size=load_text(model).tokenizer.vocab_size) as fake:
        yield fake


@asynccontextmanager
async def gateway(*flags: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.gateway", *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def ready(
    model: Path, scheduler: FakeScheduler, *flags: str
) -> AsyncIterator[tuple[Process, httpx.AsyncClient]]:
    """A gateway that takes requests, and a client of it."""
    address = ("--scheduler", scheduler.address)
    async with gateway("--model", str(model), *address, "--port", "0", *flags) as process:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("LAMINA_URL http://127.0.0.1:")
        async with httpx.AsyncClient(base_url=line.split()[1]) as http:
            await until_health_is(200, http)
            yield process, http


async def until_health_is(status: int, http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        # Another process: there is no event to wait for.
        while (await http.get("/health")).status_code != status:  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)


async def events_of(http: httpx.AsyncClient, max_tokens: int) -> list[str]:
    body = {"model": "wordy", "prompt": "abc", "max_tokens": max_tokens, "seed": 0, "stream": True}
    async with http.stream("POST", "/v1/completions", json=body) as reply:
        return [line async for line in reply.aiter_lines() if line]


async def test_process_finishes_its_streams_before_it_stops(
    model: Path, scheduler: FakeScheduler
) -> None:
    scheduler.hold_after = 2
    async with ready(model, scheduler) as (process, http):
        streaming = asyncio.create_task(events_of(http, max_tokens=3))
        await eventually(lambda: scheduler.running)
        process.send_signal(signal.SIGTERM)
        await until_health_is(503, http)
        body = {"model": "wordy", "prompt": "abc"}
        assert (await http.post("/v1/completions", json=body)).status_code == 503
        scheduler.gate.set()
        events = await streaming
        assert events[-1] == "data: [DONE]"
        assert await process.wait() == 0


async def test_process_ends_streams_with_an_error_when_time_is_up(
    model: Path, scheduler: FakeScheduler
) -> None:
    scheduler.hold_after = 1
    async with ready(model, scheduler, "--drain-seconds", "0.1") as (process, http):
        streaming = asyncio.create_task(events_of(http, max_tokens=3))
        await eventually(lambda: scheduler.running)
        process.send_signal(signal.SIGTERM)
        events = await streaming
        error = json.loads(events[-1].removeprefix("data: "))["error"]
        assert error["type"] == "unavailable_error"
        assert await process.wait() == 3
    await eventually(lambda: len(scheduler.cancelled) == 1)


async def test_process_stops_at_once_when_idle(model: Path, scheduler: FakeScheduler) -> None:
    async with ready(model, scheduler) as (process, _http):
        process.send_signal(signal.SIGINT)
        assert await process.wait() == 0


async def test_process_listens_while_there_is_no_scheduler(model: Path) -> None:
    flags = ("--scheduler", "127.0.0.1:1", "--port", "0", "--model-id", "named")
    async with gateway("--model", str(model), *flags) as process:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().split()[1]
        async with httpx.AsyncClient(base_url=url) as http:
            health = await http.get("/health")
            assert health.status_code == 503
            assert health.json()["error"] == {
                "code": 503,
                "message": "Loading model",
                "type": "unavailable_error",
            }
            models = (await http.get("/v1/models")).json()["data"]
            assert [each["id"] for each in models] == ["named"]
            body = {"model": "named", "prompt": "abc"}
            assert (await http.post("/v1/completions", json=body)).status_code == 503


async def test_process_refuses_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"no model")
    async with gateway(
        "--model", str(path), "--scheduler", "127.0.0.1:1", "--port", "0"
    ) as process:
        _out, err = await process.communicate()
    assert process.returncode == 2
    assert "broken.gguf" in err.decode()


async def test_process_refuses_a_taken_port(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        async with gateway(
            "--model", str(model), "--scheduler", "127.0.0.1:1", "--port", port
        ) as process:
            _out, err = await process.communicate()
    assert process.returncode == 2
    assert f"--port {port}" in err.decode()


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--requests-max", "0"), ("--port", "70000"), ("--stall-seconds", "0"), ("--no-such", "1")],
)
async def test_process_names_a_bad_flag(model: Path, flag: str, value: str) -> None:
    flags = ("--model", str(model), "--scheduler", "x", flag, value)
    async with gateway(*flags) as process:
        _out, err = await process.communicate()
    assert process.returncode == 2
    assert flag in err.decode()
