"""The whole system as a user starts it: `lamina serve` on the bundled model."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import psutil
import pytest

from helpers.system import DEMO_MODEL, System, lamina, serving

NUM_CLIENTS = 64
TOPICS = ("the sea", "a garden", "the stars", "bread", "rain", "music", "a fox", "numbers")


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    with serving(DEMO_MODEL) as running:
        yield running


def client(system: System) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{system.url}/v1", api_key="unused", max_retries=0)


async def stream_text(api: openai.AsyncOpenAI, prompt: str, max_tokens: int = 24) -> str:
    stream = await api.chat.completions.create(
        model="lamina-demo",
        messages=[{"role": "user", "content": prompt}],
        temperature=0,
        max_tokens=max_tokens,
        stream=True,
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def test_chat_streams_readable_text(system: System) -> None:
    async with client(system) as api:
        text = await stream_text(api, "Tell me about the sea.", max_tokens=40)
    words = text.split()
    assert len(words) >= 5
    assert sum(word.strip(".,!?'\"-").isalpha() for word in words) >= 0.8 * len(words)


async def test_many_clients_get_what_each_gets_alone(system: System) -> None:
    prompts = [f"Tell me about {TOPICS[i % 8]} and {TOPICS[i // 8]}." for i in range(NUM_CLIENTS)]
    async with client(system) as api:
        alone = [await stream_text(api, prompt) for prompt in prompts]
        together = await asyncio.gather(*(stream_text(api, prompt) for prompt in prompts))
    assert together == alone
    assert len(set(alone)) > NUM_CLIENTS // 4


async def test_metrics_count_what_was_served(system: System) -> None:
    async with client(system) as api, httpx.AsyncClient(base_url=system.url) as http:
        before = generated_tokens((await http.get("/metrics")).text)
        await stream_text(api, "Hello", max_tokens=5)
        after = generated_tokens((await http.get("/metrics")).text)
    assert before < after <= before + 5


def generated_tokens(metrics: str) -> float:
    prefix = "lamina_gateway_completion_tokens_total"
    rows = [line for line in metrics.splitlines() if line.startswith(prefix)]
    return sum(float(row.split()[-1]) for row in rows)


def test_sigterm_ends_every_process_with_code_0() -> None:
    with serving(DEMO_MODEL) as running:
        children = psutil.Process(running.process.pid).children(recursive=True)
        assert len(children) == 3
        assert running.terminate() == 0
        assert [child for child in children if child.is_running()] == []


def test_dead_worker_ends_the_system_and_is_named() -> None:
    with serving(DEMO_MODEL) as running:
        worker = next(
            child
            for child in psutil.Process(running.process.pid).children()
            if "services.worker" in child.cmdline()
        )
        worker.send_signal(signal.SIGKILL)
        assert running.process.wait(20) == 1
    assert any("the worker ended with signal SIGKILL" in line for line in running.stderr)


def test_killed_parent_leaves_no_process_behind() -> None:
    with serving(DEMO_MODEL) as running:
        children = psutil.Process(running.process.pid).children()
        running.process.kill()
        _, alive = psutil.wait_procs(children, timeout=10)
        assert alive == []


def refused(answer: subprocess.CompletedProcess[str], *words: str) -> None:
    lines = answer.stderr.strip().splitlines()
    assert answer.returncode == 2, answer.stderr
    assert len(lines) == 1, lines
    assert lines[0].startswith("lamina: error: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["inspect"], ["generate"]])
def test_bad_file_is_refused_with_one_line(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(DEMO_MODEL.read_bytes()[:100_000])
    extra = ["--prompt", "x"] if command[0] == "generate" else []
    refused(lamina(command[0], str(path), *command[1:], *extra), str(path))


def test_missing_file_is_refused_with_one_line(tmp_path: Path) -> None:
    refused(lamina("serve", str(tmp_path / "no.gguf")), "no.gguf")


def test_more_workers_than_supported_are_refused() -> None:
    refused(lamina("serve", str(DEMO_MODEL), "--workers", "2"), "--workers 2")
