"""Who may import whom: the table in STYLE.md, checked on the source and in fresh interpreters."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("engine", "services")

# package -> the packages of ours it may import, itself included
MAY_IMPORT = {
    "engine.gguf": ("engine.gguf", "engine.errors"),
    "engine.text": ("engine.text", "engine.gguf", "engine.errors"),
    "engine": ("engine",),
    "services.common": ("services.common", "services.pb"),
    "services.gateway": (
        *("services.gateway", "services.common", "services.pb"),
        *("engine.text", "engine.errors"),
    ),
    "services.scheduler": ("services.scheduler", "services.common", "services.pb"),
    "services.worker": (
        *("services.worker", "services.common", "services.pb"),
        *("engine.api", "engine.config", "engine.errors", "engine.load", "engine.fake"),
    ),
    "services.cli": ("services.cli", "services.common", "services.pb", "engine"),
}
# package -> third-party packages it must not import
MUST_NOT_IMPORT = {
    "engine.gguf": ("torch", "grpc", "tokenizers"),
    "engine.text": ("torch", "grpc"),
    "engine": ("grpc", "fastapi"),
    "services.gateway": ("torch",),
    "services.scheduler": ("torch", "numpy", "fastapi"),
    "services.worker": ("fastapi",),
}
PURE = {  # deciders: no clock, no input or output, no randomness of their own
    f"services/scheduler/{name}.py": ("asyncio", "grpc", "time", "random", "torch", "os")
    for name in ("core", "model", "pages", "refusals")
}


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules_of(package: str) -> list[Path]:
    return sorted((ROOT / package.replace(".", "/")).rglob("*.py"))


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == p or name.startswith(f"{p}.") for p in packages)


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_package_imports_only_what_it_may(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules_of(package)
        for name in imported_names(path)
        if within(name, OURS) and not within(name, MAY_IMPORT[package])
    ]
    assert wrong == []


@pytest.mark.parametrize("package", MUST_NOT_IMPORT)
def test_package_imports_nothing_it_must_not(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules_of(package)
        for name in imported_names(path)
        if within(name, MUST_NOT_IMPORT[package])
    ]
    assert wrong == []


@pytest.mark.parametrize("module", PURE)
def test_decider_is_pure(module: str) -> None:
    assert [n for n in imported_names(ROOT / module) if within(n, PURE[module])] == []


@pytest.mark.parametrize(
    "module",
    ["services.gateway.app", "services.scheduler.server", "services.worker.server", "engine.text"],
)
def test_process_starts_without_torch(module: str) -> None:
    code = f"import sys, {module}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
