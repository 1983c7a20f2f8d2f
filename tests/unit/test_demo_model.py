"""The bundled model is what its card says: small, and routed unevenly and by topic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.gguf.reader import open_gguf
from engine.gguf.shape import model_shape

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "lamina-demo.gguf"


def test_demo_model_is_a_small_mixture_of_experts() -> None:
    with open_gguf(MODEL) as model:
        shape = model_shape(model)
        licence = model.metadata.text("general.license")
    assert MODEL.stat().st_size <= 12_000_000
    assert shape.architecture == "qwen3moe"
    assert shape.layers >= 4
    assert shape.experts >= 32
    assert licence == "mit"


@pytest.fixture(scope="module")
def figures() -> dict[str, float]:
    """What tools/measure_routing.py prints, over fewer conversations than the card's."""
    command = [sys.executable, "tools/measure_routing.py", str(MODEL), "--conversations", "300"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    quarters = [
        float(line.split("busiest quarter ")[1].split("%")[0])
        for line in output.splitlines()
        if "busiest quarter" in line
    ]
    return {
        "busiest_quarter_percent": sum(quarters) / len(quarters),
        "topic_ratio": float(output.split("ratio ")[1].split()[0]),
        "perplexity": float(output.split("tokens: ")[1]),
    }


def test_routing_is_skewed(figures: dict[str, float]) -> None:
    assert figures["busiest_quarter_percent"] > 35  # 25 would be even


def test_routing_depends_on_the_topic(figures: dict[str, float]) -> None:
    assert figures["topic_ratio"] > 5  # 1 would be chance


def test_held_out_text_is_expected(figures: dict[str, float]) -> None:
    assert figures["perplexity"] < 1.6
