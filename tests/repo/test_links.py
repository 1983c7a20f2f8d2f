"""Documents point at files that exist, and name commands and paths that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
CODE_PATH = re.compile(r"`((?:engine|services|tests|tools|docs|proto|bench|models)/[\w./-]+)`")


def documents() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


DOCUMENTS = [pytest.param(p, id=str(p.relative_to(ROOT))) for p in documents()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: Path) -> None:
    targets = LINK.findall(document.read_text())
    assert [t for t in targets if not (document.parent / t).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_exist(document: Path) -> None:
    if document.name == "STYLE.md":  # names files that are still to come
        return
    names = CODE_PATH.findall(document.read_text())
    assert [n for n in names if not (ROOT / n.rstrip("/.")).exists()] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/testing.md"])
def test_make_targets_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.M))
    used = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / name).read_text(), re.M))
    assert used - targets == set()
    assert used
