"""The pool under the ops: sizes, callers at the same time, forks."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from engine.errors import ShapeError
from engine.gguf.types import GGMLType
from engine.kernels import ops
from helpers.weights import activations, random_matrix

ROOT = Path(__file__).resolve().parents[2]
# A process that forks while one of its threads computes. The child computes too, or does nothing;
# either way it must end by itself, through the interpreter's own exit.
FORKING = """
import os, sys, threading, warnings
import torch
sys.path[:0] = ["tests"]
from helpers.weights import activations, random_matrix
from engine.gguf.types import GGMLType
from engine.kernels import ops

warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
ops.set_num_threads(3)
w, x = random_matrix(GGMLType.Q8_0, 256, 256), activations(4, 256)
expected = ops.linear(x, w)
stop = threading.Event()

def compute():
    while not stop.is_set():
        ops.linear(x, w)

thread = threading.Thread(target=compute)
thread.start()
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        if sys.argv[1] == "computes":
            fine = ops.num_threads() == 3 and torch.equal(ops.linear(x, w), expected)
        else:
            fine = True
        stop.set()
        threading._shutdown = lambda: None  # the other thread is not in this process
        sys.exit(0 if fine else 3)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
thread.join()
assert torch.equal(ops.linear(x, w), expected)
print(codes)
"""


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_pool_has_the_size_that_was_asked_for(count: int) -> None:
    w, x = random_matrix(GGMLType.Q4_K, 100, 256), activations(9, 256)
    expected = ops.linear(x, w)
    ops.set_num_threads(count)
    assert ops.num_threads() == count
    for _ in range(50):
        assert torch.equal(ops.linear(x, w), expected)


@pytest.mark.parametrize("count", [0, -1, 1025, 10**9])
def test_pool_of_an_impossible_size_is_refused(count: int) -> None:
    with pytest.raises(ShapeError, match=rf"count: {count} threads"):
        ops.set_num_threads(count)
    assert ops.num_threads() == 2


def test_two_threads_may_call_ops_at_once() -> None:
    matrices = [random_matrix(GGMLType.Q8_0, 128, 256, seed=seed) for seed in range(2)]
    x = activations(5, 256)
    expected = [ops.linear(x, w) for w in matrices]
    wrong: list[int] = []

    def compute(index: int) -> None:
        results = (ops.linear(x, matrices[index]) for _ in range(200))
        wrong.extend(index for y in results if not torch.equal(y, expected[index]))

    threads = [threading.Thread(target=compute, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_pool_may_be_resized_while_it_computes() -> None:
    w, x = random_matrix(GGMLType.Q8_0, 128, 256), activations(5, 256)
    expected = ops.linear(x, w)
    resizing = threading.Event()
    wrong: list[int] = []

    def compute() -> None:
        while not resizing.is_set():
            if not torch.equal(ops.linear(x, w), expected):
                wrong.append(1)

    thread = threading.Thread(target=compute)
    thread.start()
    for round in range(30):
        ops.set_num_threads(1 + round % 4)
    resizing.set()
    thread.join()
    assert wrong == []


@pytest.mark.parametrize("child", ["computes", "idles"])
def test_forked_child_makes_its_own_pool_and_ends(child: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, child],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("[0, 0, 0, 0, 0]\n", 0), done.stderr


def test_idle_pool_uses_no_processor_time() -> None:
    """The pause is what is measured: nothing is waited for."""
    code = (
        "import time; from engine.kernels import ops; ops.set_num_threads(4)\n"
        "import torch; ops.rms_norm(torch.ones(99, 8), torch.ones(8), 0.1)\n"
        "before = time.process_time(); time.sleep(0.3)\n"
        "print(time.process_time() - before)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 0.1
