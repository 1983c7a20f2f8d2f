"""What a decode step spends outside native ops: Python, dispatch and torch.

    python bench/overhead.py FILE.gguf [--threads 2] [--steps 64]

Every function of the native module is timed from the outside, so the time of the call itself counts
as native; the rest of the step is the overhead. One JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from compare import prompt_ids

WARM_UP_STEPS = 4


class NativeClock:
    """Seconds spent in the functions of the native module since the last `take`."""

    def __init__(self) -> None:
        from engine.kernels import _native

        self._seconds = 0.0
        for name in dir(_native):
            function = getattr(_native, name)
            if callable(function) and not isinstance(function, type) and not name.startswith("_"):
                setattr(_native, name, self._timed(function))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._seconds += time.perf_counter() - began

        return call

    def take(self) -> float:
        """The seconds, which start again at zero."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=64)
    args = parser.parse_args()

    from engine.api import Sampling
    from engine.config import EngineConfig
    from engine.load import load_engine
    from engine.local import generate

    config = EngineConfig(
        model=args.model, threads=args.threads, activations="int8", kv_tokens=args.steps + 128
    )
    engine = load_engine(config)
    clock = NativeClock()
    prompt = prompt_ids(16, engine.facts.vocab_size)
    steps: list[tuple[float, float]] = []
    began = time.perf_counter()
    for _ in generate(engine, [prompt], Sampling(temperature=0), max_tokens=args.steps):
        now = time.perf_counter()
        steps.append((now - began, clock.take()))
        began = now
    usual = steps[1 + WARM_UP_STEPS :]
    print(json.dumps({
        "bench": "overhead",
        "model": args.model.name,
        "threads": args.threads,
        "step_ms": round(1e3 * statistics.median(step for step, _ in usual), 3),
        "native_ms": round(1e3 * statistics.median(native for _, native in usual), 3),
        "outside_native": round(statistics.median(1 - native / step for step, native in usual), 4),
    }))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
