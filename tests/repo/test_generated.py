"""Generated files are what their sources generate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_protobuf_modules_are_current(tmp_path: Path) -> None:
    protos = [f"services/pb/{p.name}" for p in sorted((ROOT / "proto").glob("*.proto"))]
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    command = ["-m", "grpc_tools.protoc", "-I", "services/pb=proto", *outputs, *protos]
    subprocess.run([sys.executable, *command], check=True, cwd=ROOT)
    made = sorted((tmp_path / "services/pb").iterdir())
    stale = [p.name for p in made if (ROOT / "services/pb" / p.name).read_text() != p.read_text()]
    assert len(made) == 3 * len(protos)
    assert stale == []
