"""Child processes of `lamina serve`: start, announce, watch, stop in order.

Used by `services.cli.serve` and `services.cli.bench`. A child is bound to its parent's life
(Linux: parent-death signal), so that `kill -9` of the parent leaves no process behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

URL_PREFIX = "LAMINA_URL "  # the line by which a gateway says where it listens
HEALTH_POLL_SECONDS = 0.1
KILL_GRACE_SECONDS = 5.0  # beyond a child's own drain time, before it is killed
PR_SET_PDEATHSIG = 1  # Source: prctl(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process to start."""

    name: str
    command: tuple[str, ...]
    announces_url: bool = False


def python_module(module: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a module in this interpreter."""
    return (sys.executable, "-m", module, *arguments)


class Supervisor:
    """Runs children until one dies or a signal asks to stop.

    `on_ready` is called with the URL once the system answers; the default prints it.
    """

    def __init__(
        self,
        children: list[Child],
        drain_seconds: float,
        on_ready: Callable[[str], None] | None = None,
    ) -> None:
        self._children = children
        self._drain_seconds = drain_seconds
        self._on_ready = on_ready or _print_url
        self._running: list[tuple[Child, asyncio.subprocess.Process]] = []
        self._signals: asyncio.Queue[signal.Signals] = asyncio.Queue()

    async def run(self) -> int:
        """Start, announce, wait, stop. Returns 0 after a signal, else the dead child's code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signals.put_nowait, number)
        announce: asyncio.Task[None] | None = None
        try:
            for child in self._children:
                self._running.append((child, await _start(child)))
            announce = asyncio.create_task(self._announce())
            return await self._first_end(announce)
        finally:
            if announce is not None:
                announce.cancel()
            await self._stop()

    def stop(self) -> None:
        """Ask for the same end that SIGTERM asks for."""
        self._signals.put_nowait(signal.SIGTERM)

    async def _announce(self) -> None:
        """Wait for the gateway's URL, then for health, then tell."""
        process = next(p for child, p in self._running if child.announces_url)
        assert process.stdout is not None
        async for line in process.stdout:
            text = line.decode(errors="replace").rstrip("\n")
            if text.startswith(URL_PREFIX):
                url = text.removeprefix(URL_PREFIX)
                while not await asyncio.to_thread(_healthy, url):  # noqa: ASYNC110 - over HTTP
                    await asyncio.sleep(HEALTH_POLL_SECONDS)
                self._on_ready(url)

    async def _first_end(self, announce: asyncio.Task[None]) -> int:
        """Wait for a signal or for the first child to die, whichever comes first."""
        told = asyncio.create_task(self._signals.get())
        ends = {asyncio.create_task(p.wait()): child for child, p in self._running}
        failed = asyncio.create_task(_raise_if_failed(announce))
        try:
            await asyncio.wait({told, failed, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                return 0
            if failed.done():
                failed.result()
            task = next(task for task in ends if task.done())
            code = task.result()
        finally:
            for waiting in (told, failed, *ends):
                waiting.cancel()
        sys.stderr.write(f"lamina: the {ends[task].name} ended with {_describe(code)}; stopping\n")
        return code if code > 0 else 1

    async def _stop(self) -> None:
        """Stop in the reverse order of start; a second signal, or time, kills."""
        for child, process in reversed(self._running):
            if process.returncode is not None:
                continue
            process.terminate()
            waiter = asyncio.create_task(process.wait())
            again = asyncio.create_task(self._signals.get())
            await asyncio.wait(
                {waiter, again},
                timeout=self._drain_seconds + KILL_GRACE_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            again.cancel()
            if process.returncode is None:
                sys.stderr.write(f"lamina: the {child.name} did not stop; killing it\n")
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await waiter


async def _raise_if_failed(task: asyncio.Task[None]) -> None:
    """End only if `task` fails; an announcement that is done has nothing more to say."""
    await asyncio.shield(task)
    await asyncio.Event().wait()


async def _start(child: Child) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *child.command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE if child.announces_url else None,
        start_new_session=True,  # Ctrl-C reaches us alone; we pass it on in order
        preexec_fn=_die_with_parent(os.getpid()),
    )


def _die_with_parent(parent: int) -> Callable[[], None] | None:
    """A pre-exec step that ends the child when `parent` dies; None where the kernel has no such."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)

    def bind() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return bind


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def _describe(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"signal {signal.Signals(-code).name}"


def _print_url(url: str) -> None:
    sys.stdout.write(f"Lamina is ready: {url}\n")
    sys.stdout.flush()
