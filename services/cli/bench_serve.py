"""`lamina bench serve`: a team of clients against the whole system.

Starts the three processes as `lamina serve` does, lets `batch` clients stream completions at once,
each with a prompt of its own, and reports tokens per second over all of them and the latencies a
client sees. One JSON object per run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from engine.gguf.census import census
from engine.gguf.reader import open_gguf
from services.cli import serve
from services.cli.arguments import add_engine_flags, emit, engine_arguments, numbers
from services.cli.processes import Supervisor
from services.common.config import count

REQUEST_TIMEOUT_SECONDS = 600.0
# Prompts differ, so that clients do not share experts or prefixes by accident.
PROMPT = "Tell me about number {index}, the sea, a garden and what happens in the evening."


@dataclass(slots=True)
class Timeline:
    """When the pieces of one stream arrived, in seconds of one clock."""

    sent: float
    arrivals: list[float] = field(default_factory=list)
    tokens: int = 0

    @property
    def first_token_seconds(self) -> float:
        """From sending the request to the first piece of text."""
        return self.arrivals[0] - self.sent

    @property
    def gaps_seconds(self) -> list[float]:
        """Between one piece and the next."""
        return [b - a for a, b in zip(self.arrivals, self.arrivals[1:], strict=False)]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `lamina bench serve`."""
    parser = subparsers.add_parser("serve", help="many clients against the whole system")
    add_engine_flags(parser, activations="int8")
    parser.add_argument("--batch", default="1,4,16", help="clients at once, a list (%(default)s)")
    parser.add_argument("--max-tokens", type=count, default=64, help="per client (%(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve, load, report; one line per number of clients."""
    return asyncio.run(_measure(args))


async def _measure(args: argparse.Namespace) -> int:
    parser = argparse.ArgumentParser()
    serve.add_parser(parser.add_subparsers())
    argv = ["serve", str(args.model), "--port", "0", *engine_arguments(args)]
    options = parser.parse_args(argv)
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with tempfile.TemporaryDirectory(prefix="lamina-") as folder:
        children = serve.children(options, Path(folder))
        supervisor = Supervisor(children, options.drain_seconds, on_ready=ready.set_result)
        system = asyncio.create_task(supervisor.run())
        started: set[asyncio.Future[Any]] = {system, ready}
        await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            return await system
        try:
            for clients in numbers("--batch", args.batch):
                emit(await _load(ready.result(), clients, args), as_json=args.json)
        finally:
            supervisor.stop()
            code = await system
    return code


async def _load(url: str, clients: int, args: argparse.Namespace) -> dict[str, object]:
    """Run `clients` streams at once, after one warm-up, and summarise them."""
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(
        base_url=url, timeout=REQUEST_TIMEOUT_SECONDS, limits=limits
    ) as client:
        await _stream(client, index=clients, max_tokens=4)
        began = time.perf_counter()
        lines = await asyncio.gather(
            *(_stream(client, index=i, max_tokens=args.max_tokens) for i in range(clients))
        )
        seconds = time.perf_counter() - began
    return _summary(lines, seconds, args)


def _summary(lines: list[Timeline], seconds: float, args: argparse.Namespace) -> dict[str, object]:
    tokens = sum(line.tokens for line in lines)
    gaps = sorted(gap for line in lines for gap in line.gaps_seconds) or [0.0]
    return {
        "bench": "serve",
        "model": args.model.name,
        "activations": args.activations,
        "threads": args.threads,
        "batch": len(lines),
        "tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 2),
        "seconds": round(seconds, 3),
        "first_token_seconds_median": round(
            statistics.median(line.first_token_seconds for line in lines), 4
        ),
        "inter_token_seconds_median": round(statistics.median(gaps), 5),
        "inter_token_seconds_p99": round(gaps[int(0.99 * (len(gaps) - 1))], 5),
        "bytes_per_token": bytes_per_token(args.model),
    }


async def _stream(client: httpx.AsyncClient, *, index: int, max_tokens: int) -> Timeline:
    body = {
        "prompt": PROMPT.format(index=index),
        "max_tokens": max_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    line = Timeline(sent=time.perf_counter())
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        answer.raise_for_status()
        async for row in answer.aiter_lines():
            if not row.startswith("data: {"):
                continue
            chunk = json.loads(row.removeprefix("data: "))
            if chunk["choices"]:
                line.arrivals.append(time.perf_counter())
            if chunk.get("usage"):
                line.tokens = chunk["usage"]["completion_tokens"]
    if not line.arrivals:
        raise RuntimeError(f"client {index} got no text")
    return line


def bytes_per_token(model: Path) -> int:
    """What one token alone reads; tokens that share a step share most of it."""
    with open_gguf(model) as file:
        return census(file).bytes_per_token
