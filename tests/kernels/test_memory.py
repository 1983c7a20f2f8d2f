"""Large tensors get the memory of freed ones, whose pages are there already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAULTS = """
import resource, torch
from engine.kernels import ops

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(16 << 20)  # 64 MiB, 16,384 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = faults()
ops.keep_freed_memory()
for _ in range(20):  # until the pieces of the heap have found their places
    faults()
print(usual, faults())
"""


def test_freed_memory_is_used_again_without_page_faults() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    usual, kept = map(int, done.stdout.split())
    assert usual > 10_000  # or the test says nothing
    assert kept < 1_000
