"""Every op has what an op must have: a plain reference, tests, and a bench case."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kernels import ops, reference

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {
    *("variants", "variant", "set_variant", "num_threads", "set_num_threads"),
    "keep_freed_memory",
}
OPS = sorted(
    name
    for name, value in vars(ops).items()
    if inspect.isfunction(value) and value.__module__.startswith(ops.__name__)
)
COMPUTING = [name for name in OPS if name not in SETTINGS]
each_op = pytest.mark.parametrize("op", COMPUTING)


def names_called(path: Path) -> set[str]:
    """x of every `ops.x` in a file."""
    nodes = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute))
    return {n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == "ops"}


def test_ops_are_found() -> None:
    assert len(COMPUTING) >= 10
    assert set(OPS) >= SETTINGS


@each_op
def test_op_has_a_reference_with_the_same_signature(op: str) -> None:
    ours, plain = getattr(ops, op), getattr(reference, op)
    assert inspect.signature(ours) == inspect.signature(plain)
    assert inspect.getdoc(plain)


@each_op
def test_op_is_compared_with_its_reference(op: str) -> None:
    files = (ROOT / "tests/kernels").glob("test_*.py")
    assert any(re.search(rf"\breference\.{op}\b", path.read_text()) for path in files)


@pytest.mark.parametrize("op", OPS)
def test_op_is_called_in_a_kernel_test(op: str) -> None:
    files = [*(ROOT / "tests/kernels").glob("*.py"), ROOT / "tests/golden/test_quant_blocks.py"]
    assert any(op in names_called(path) for path in files)


@each_op
def test_op_has_bench_cases(op: str) -> None:
    files = (ROOT / "bench/kernel_cases").glob("*.py")
    assert any(op in names_called(path) for path in files)


def test_bench_lists_a_function_per_op() -> None:
    code = "import kernels; print(*(cases.__name__ for cases in kernels.CASES))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "bench", capture_output=True, text=True, check=True
    )
    assert sorted(done.stdout.split()) == COMPUTING


def test_native_module_knows_every_type_that_has_a_layout_and_a_reference() -> None:
    from engine.gguf.quants.dequantize import FORMATS
    from engine.gguf.types import GGMLType
    from engine.kernels import _native

    floats = {GGMLType.F32, GGMLType.F16, GGMLType.BF16}
    assert {type for type in GGMLType if _native.has_type(int(type))} == {*FORMATS, *floats}
