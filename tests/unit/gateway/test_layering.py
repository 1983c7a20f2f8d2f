"""The gateway's image has no torch, and must not need it."""

from __future__ import annotations

import subprocess
import sys


def test_gateway_app_leaves_torch_out() -> None:
    check = (
        "import sys, services.gateway.app, services.gateway.__main__;"
        "heavy = {'torch', 'transformers', 'triton', 'engine.kernels', 'engine.model'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
