"""The whole system as a user starts it: `lamina serve` on the bundled model."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import psutil
import pytest
from playwright.async_api import ViewportSize, expect

from helpers import smollm2
from helpers.browser import CHROMIUM, DESKTOP, MISSING, PHONE, chromium
from helpers.smollm2 import smollm2_path
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


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.parametrize("screen", [PHONE, DESKTOP], ids=["phone", "desktop"])
async def test_page_streams_readable_text(system: System, screen: tuple[int, int]) -> None:
    async with chromium() as browser:
        size: ViewportSize = {"width": screen[0], "height": screen[1]}
        page = await (await browser.new_context(viewport=size)).new_page()
        await page.goto(system.url)
        await page.get_by_label("Message").fill("What is the sea like?")
        await page.keyboard.press("Enter")
        # The page samples: what it says differs from run to run.
        sentence = re.compile(r"[A-Z][\w']*( [\w']+,?){3,}[.?!]")
        await expect(page.get_by_label("Answer")).to_contain_text(sentence)


@pytest.mark.skipif(smollm2_path() is None, reason=smollm2.MISSING)
async def test_real_model_answers_sensibly() -> None:
    model = smollm2_path()
    assert model is not None
    with serving(model, "--kv-tokens", "2048") as running:
        async with client(running) as api:
            served = (await api.models.list()).data[0].id
            answer = await api.chat.completions.create(
                model=served,
                messages=[{"role": "user", "content": "What is the capital of France?"}],
                temperature=0,
                max_tokens=16,
            )
    assert "The capital of France is Paris" in (answer.choices[0].message.content or "")


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


def test_bench_serve_prints_one_object_per_run() -> None:
    flags = ("--batch", "1,4", "--max-tokens", "16", "--json")
    answer = lamina("bench", "serve", str(DEMO_MODEL), *flags)
    assert answer.returncode == 0, answer.stderr
    records = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [(r["bench"], r["batch"], r["tokens"]) for r in records] == [
        ("serve", 1, 16),
        ("serve", 4, 64),
    ]
    assert all(r["tokens_per_second"] > 0 and r["bytes_per_token"] > 0 for r in records)


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


def with_architecture(raw: bytes) -> bytes:
    return raw.replace(b"qwen3moe", b"qwen9moe")  # the key of every size goes with it


def with_type(raw: bytes) -> bytes:
    name = b"output_norm.weight"
    at = raw.index(name) + len(name) + 4 + 8  # past the number of dimensions and the one there is
    return raw[:at] + b"\xff\0\0\0" + raw[at + 4 :]


def with_dimensions(raw: bytes) -> bytes:
    name = b"output_norm.weight"
    at = raw.index(name) + len(name) + 4
    return raw[:at] + b"\xff" * 8 + raw[at + 8 :]


def with_overlap(raw: bytes) -> bytes:
    name = b"output_norm.weight"
    at = raw.index(name) + len(name) + 4 + 8 + 4
    return raw[:at] + bytes(8) + raw[at + 8 :]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw[: len(raw) // 2], "truncated"),
        (lambda raw: bytes(range(256)) * 64, "not a GGUF file"),
        (with_architecture, "unknown architecture 'qwen9moe'"),
        (with_type, "unknown type 255"),
        (with_dimensions, "impossible dimensions"),
        (with_overlap, "overlap"),
    ],
    ids=["truncated", "random", "architecture", "type", "dimensions", "overlap"],
)
def test_hostile_file_is_refused_with_one_line(
    change: Callable[[bytes], bytes], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(change(DEMO_MODEL.read_bytes()))
    refused(lamina("serve", str(path), "--port", "0"), str(path), words)


@pytest.mark.parametrize("command", [["serve", "--port", "0"], ["inspect"], ["generate"]])
def test_bad_file_is_refused_with_one_line(command: list[str], tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(DEMO_MODEL.read_bytes()[:100_000])
    extra = ["--prompt", "x"] if command[0] == "generate" else []
    refused(lamina(command[0], str(path), *command[1:], *extra), str(path))


def test_missing_file_is_refused_with_one_line(tmp_path: Path) -> None:
    refused(lamina("serve", str(tmp_path / "no.gguf")), "no.gguf")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--threads", "-1"),
        ("--port", "99999"),
        ("--port", "65534"),
        ("--sequences-max", "-1"),
        ("--drain-seconds", "nan"),
        ("--kv-tokens", "many"),
        ("--activations", "f64"),
    ],
)
def test_bad_flag_is_named_before_anything_starts(flag: str, value: str) -> None:
    answer = lamina("serve", str(DEMO_MODEL), flag, value)
    assert answer.returncode == 2
    assert flag in answer.stderr.splitlines()[-1]
    assert "Traceback" not in answer.stderr


def test_cache_that_cannot_be_had_names_the_shortfall() -> None:
    answer = lamina("serve", str(DEMO_MODEL), "--port", "0", "--kv-tokens", "99999999999")
    assert answer.returncode == 2
    assert "MiB more than is free" in answer.stderr


def test_more_workers_than_supported_are_refused() -> None:
    refused(lamina("serve", str(DEMO_MODEL), "--workers", "2"), "--workers 2")
