"""Large tensors get the memory of freed ones, whose pages are there already."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from engine.kernels import ops

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


def test_keeping_memory_may_be_asked_for_in_every_engine_of_a_process() -> None:
    for _ in range(3):
        ops.keep_freed_memory()
        assert torch.ones(1 << 20).sum() == 1 << 20
