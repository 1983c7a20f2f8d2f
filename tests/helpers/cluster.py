"""A scheduler and a worker as real processes on Unix sockets, for tests of faults."""

from __future__ import annotations

import asyncio
import re
import sys
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from engine.fake import next_token
from helpers.eventually import eventually
from services.common import rpc
from services.common.errors import ServiceError
from services.pb import common_pb2, scheduler_pb2, scheduler_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
STOP_SECONDS = 15.0
VOCAB = 1000  # of the fake engine
ENDLESS = 4000  # tokens: still running whenever a test looks
SubmitCall: TypeAlias = (
    "grpc.aio.UnaryStreamCall[scheduler_pb2.SubmitRequest, scheduler_pb2.SubmitEvent]"
)
METRICS_PORT = re.compile(r"metrics on port (\d+)")


@dataclass(slots=True)
class Answer:
    """What one Submit gave: token ids, and how it ended."""

    tokens: list[int] = field(default_factory=list)
    finish: scheduler_pb2.Finish | None = None
    error: ServiceError | None = None


@dataclass(slots=True)
class Process:
    """A child and what it wrote to stderr."""

    child: asyncio.subprocess.Process
    stderr: list[str]
    reading: asyncio.Task[None]

    async def until_says(self, text: str) -> None:
        """Wait for a line of stderr with `text`."""
        await eventually(lambda: any(text in line for line in self.stderr))

    async def metrics_port(self) -> int:
        """Where it serves /metrics."""
        await self.until_says("metrics on port")
        found = METRICS_PORT.search("".join(self.stderr))
        assert found is not None
        return int(found[1])

    async def metrics(self) -> dict[str, float]:
        """Its series as they stand; the key is the name with its labels."""
        url = f"http://127.0.0.1:{await self.metrics_port()}/metrics"
        with await asyncio.to_thread(urllib.request.urlopen, url) as answer:
            lines = answer.read().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    async def stop(self) -> int:
        """SIGTERM and wait; the exit code."""
        if self.child.returncode is None:
            self.child.terminate()
        return await self.wait()

    async def wait(self) -> int:
        code = await asyncio.wait_for(self.child.wait(), STOP_SECONDS)
        await self.reading
        return code

    async def kill(self) -> None:
        if self.child.returncode is None:
            self.child.kill()
        await self.wait()


async def start(module: str, *arguments: str) -> Process:
    """Run `python -m module`."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments), cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    lines: list[str] = []

    async def read() -> None:
        assert child.stderr is not None
        async for line in child.stderr:
            lines.append(line.decode())  # noqa: PERF401 - a test looks at them as they come

    return Process(child, lines, asyncio.create_task(read()))


class Cluster:
    """One scheduler and one worker, started and stopped by the test."""

    def __init__(self, folder: Path, model: str, module: str) -> None:
        self.worker_address = f"unix:{folder}/w.sock"
        self.address = f"unix:{folder}/s.sock"
        self._model, self._module = model, module
        self.worker: Process | None = None
        self.scheduler: Process | None = None
        self._channel = grpc.aio.insecure_channel(self.address)
        self._stub = scheduler_pb2_grpc.SchedulerStub(self._channel)
        self._health = health_pb2_grpc.HealthStub(self._channel)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: Path,
        *,
        model: str = "fake:",
        module: str = "services.worker",
        worker: Sequence[str] = (),
        scheduler: Sequence[str] = (),
        until_serving: bool = True,
    ) -> AsyncIterator[Cluster]:
        """Both processes are up, and ready if that was waited for."""
        async with cls.beside(folder, model=model, module=module) as cluster:
            await cluster.start_worker(*worker)
            await cluster.start_scheduler(*scheduler)
            if until_serving:
                await cluster.until_serving(True)
            yield cluster

    @classmethod
    @asynccontextmanager
    async def beside(
        cls, folder: Path, *, model: str = "fake:", module: str = "services.worker"
    ) -> AsyncIterator[Cluster]:
        """Nothing is started yet; what the test starts is stopped."""
        cluster = cls(folder, model, module)
        try:
            yield cluster
        finally:
            for process in (cluster.scheduler, cluster.worker):
                if process is not None:
                    await process.kill()
            await cluster._channel.close()

    async def start_worker(self, *flags: str) -> Process:
        arguments = ("--model", self._model, "--listen", self.worker_address, *flags)
        self.worker = await start(self._module, *arguments)
        return self.worker

    async def start_scheduler(self, *flags: str) -> Process:
        arguments = ("--worker", self.worker_address, "--listen", self.address, *flags)
        self.scheduler = await start("services.scheduler", *arguments)
        return self.scheduler

    async def until_serving(self, serving: bool) -> None:
        """Wait for what the scheduler's health says."""
        answers: list[int] = []

        async def ask() -> None:
            try:
                answer = await self._health.Check(  # type: ignore[attr-defined]
                    health_pb2.HealthCheckRequest(), timeout=5, wait_for_ready=True
                )
                answers.append(answer.status)
            except grpc.aio.AioRpcError:
                answers.append(-1)

        wanted = health_pb2.HealthCheckResponse.SERVING
        async with asyncio.timeout(STOP_SECONDS):
            while True:
                await ask()
                if (answers[-1] == wanted) is serving:
                    return
                await eventually(lambda: True)

    async def submit(
        self,
        prompt: Sequence[int],
        *,
        max_tokens: int = 16,
        seed: int = 0,
        stop: Sequence[int] = (),
        deadline_seconds: float = 30.0,
        answer: Answer | None = None,
        min_p: float = 0.0,
    ) -> Answer:
        """Run one request to its end; `answer` is filled as tokens come."""
        answer = answer if answer is not None else Answer()
        request = _request(prompt, max_tokens=max_tokens, seed=seed, stop=stop, min_p=min_p)
        call = self._stub.Submit(request, timeout=deadline_seconds)
        try:
            async for event in call:
                answer.tokens.extend(token.id for token in event.tokens)
                if event.HasField("finish"):
                    answer.finish = event.finish
        except grpc.aio.AioRpcError as error:
            answer.error = rpc.service_error(error)
        finally:
            call.cancel()
        return answer

    async def begun(self) -> tuple[asyncio.Task[Answer], Answer]:
        """A request without end whose first tokens have come."""
        answer = Answer()
        task = asyncio.create_task(self.submit([1, 2, 3], max_tokens=ENDLESS, answer=answer))
        await eventually(lambda: answer.tokens or task.done())
        assert not task.done(), answer.error
        return task, answer

    @asynccontextmanager
    async def unread(self, prompt: Sequence[int], *, max_tokens: int) -> AsyncIterator[SubmitCall]:
        """A request whose stream the test reads itself, or not; little of it is read ahead."""
        options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(self.address, options=options) as channel:
            stub = scheduler_pb2_grpc.SchedulerStub(channel)
            yield stub.Submit(_request(prompt, max_tokens=max_tokens), timeout=30)


def _request(
    prompt: Sequence[int],
    *,
    max_tokens: int,
    seed: int = 0,
    stop: Sequence[int] = (),
    min_p: float = 0.0,
) -> scheduler_pb2.SubmitRequest:
    return scheduler_pb2.SubmitRequest(
        request_id="test",
        attempt=1,
        prompt_tokens=prompt,
        max_tokens=max_tokens,
        stop_tokens=stop,
        sampling=common_pb2.Sampling(top_p=1, repetition_penalty=1, min_p=min_p, seed=seed),
    )


def alone(prompt: Sequence[int], count: int, seed: int) -> list[int]:
    """What the fake engine gives a request that has it to itself."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens, seed, VOCAB, num_prompt_tokens=len(prompt)))
    return tokens[len(prompt) :]
