"""Start `lamina serve` as a user does, for tests that need the whole system."""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
DEMO_MODEL = ROOT / "models" / "lamina-demo.gguf"
READY = "Lamina is ready: "
START_SECONDS = 45.0


@dataclass(slots=True)
class System:
    """A running `lamina serve`."""

    process: subprocess.Popen[str]
    url: str
    stderr: list[str] = field(default_factory=list)

    def terminate(self, deadline_seconds: float = 20.0) -> int:
        """SIGTERM, then the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(deadline_seconds)


def lamina(*arguments: str, timeout_seconds: float = 50.0) -> subprocess.CompletedProcess[str]:
    """Run a `lamina` command to its end."""
    command = [sys.executable, "-m", "services.cli", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_seconds, check=False
    )


@contextlib.contextmanager
def serving(model: Path, *flags: str) -> Iterator[System]:
    """A system that answers, on a free port; stopped at the end of the block."""
    command = [sys.executable, "-m", "services.cli", "serve", str(model), "--port", "0", *flags]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    lines: queue.Queue[str] = queue.Queue()
    stderr: list[str] = []
    assert process.stdout is not None
    assert process.stderr is not None
    readers = [
        threading.Thread(target=_read, args=(process.stdout, lines.put)),
        threading.Thread(target=_read, args=(process.stderr, stderr.append)),
    ]
    for reader in readers:
        reader.start()
    try:
        line = lines.get(timeout=START_SECONDS)
        assert line.startswith(READY), line
        yield System(process=process, url=line.removeprefix(READY).strip(), stderr=stderr)
    except queue.Empty:
        raise AssertionError(f"not ready in time; stderr: {''.join(stderr)}") from None
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for reader in readers:
            reader.join()
        process.stdout.close()
        process.stderr.close()


def _read(source: IO[str], take: Callable[[str], None]) -> None:
    for line in source:
        take(line)
