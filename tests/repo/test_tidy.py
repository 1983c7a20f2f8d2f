"""Sizes, words and marks that the tree keeps to; see STYLE.md."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
GENERATED = ("services/pb/", "engine/kernels/_native.pyi")
CONSTANT_TABLES = re.compile(r"(^|/)\w*tables?(_data)?\.(py|h)$")
SOURCES = {".py", ".pyi", ".h", ".cpp", ".sh", ".js", ".css", ".html", ".proto", ".toml"}


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def source_files() -> list[Path]:
    names = [p for p in tracked_files() if p.suffix in SOURCES]
    return [p for p in names if not str(p.relative_to(ROOT)).startswith(GENERATED)]


def test_tree_has_sources() -> None:
    assert len(source_files()) > 50


def test_modules_are_not_too_long() -> None:
    files = [p for p in source_files() if not CONSTANT_TABLES.search(str(p.relative_to(ROOT)))]
    lengths = {p.relative_to(ROOT): len(p.read_text().splitlines()) for p in files}
    assert {p: n for p, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_functions_are_not_too_long() -> None:
    long = []
    for path in (p for p in source_files() if p.suffix == ".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.name} has {length} lines")
    assert long == []


@pytest.mark.parametrize("folder", ["engine", "services"])
def test_modules_say_what_they_own(folder: str) -> None:
    paths = [p for p in source_files() if p.suffix == ".py" and p.is_relative_to(ROOT / folder)]
    mute = [
        p.relative_to(ROOT)
        for p in paths
        if p.name != "__init__.py" and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert mute == []


def test_open_ends_name_an_issue() -> None:
    mark = re.compile(r"\b(TODO|FIXME|XXX)\b(?! ?\(#\d+\))")
    own = Path(__file__)
    found = [
        f"{p.relative_to(ROOT)}:{number}"
        for p in source_files()
        if p != own
        for number, line in enumerate(p.read_text().splitlines(), 1)
        if mark.search(line)
    ]
    assert found == []


def test_environment_is_read_in_one_place() -> None:
    reads = re.compile(r"\bos\.(environ|getenv)\b")
    allowed = {"services/common/config.py"}
    found = {
        str(p.relative_to(ROOT))
        for p in source_files()
        if p.suffix == ".py"
        and str(p.relative_to(ROOT)).startswith(("engine/", "services/"))
        and reads.search(p.read_text())
    }
    assert {p for p in found if p not in allowed and not p.endswith("/__main__.py")} == set()


def test_no_vague_module_names() -> None:
    vague = {"utils.py", "helpers.py", "misc.py", "util.py", "common.py"}
    assert [p.relative_to(ROOT) for p in source_files() if p.name in vague] == []


def test_import_names_resolve_inside_the_checkout() -> None:
    import engine
    import services

    assert engine.__file__ == str(ROOT / "engine" / "__init__.py")
    assert services.__file__ == str(ROOT / "services" / "__init__.py")


def test_changelog_has_an_unreleased_section() -> None:
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
