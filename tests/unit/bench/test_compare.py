"""What the comparison with llama.cpp says of its rounds."""

from __future__ import annotations

import pytest

from bench.compare import Figures, prompt_ids, ratios


def round_of(ours: float, theirs: float) -> dict[str, Figures]:
    def figures(speed: float) -> Figures:
        return {"prefill_tokens_per_second": 10 * speed, "decode_tokens_per_second": speed}

    return {"lamina": figures(ours), "llama.cpp": figures(theirs)}


def test_ratios_are_taken_within_a_round() -> None:
    drifting = [round_of(10, 5), round_of(2, 2), round_of(30, 20)]
    assert ratios(drifting)["decode"] == {"min": 1.0, "median": 1.5, "max": 2.0}
    assert ratios(drifting)["prefill"] == {"min": 1.0, "median": 1.5, "max": 2.0}


@pytest.mark.parametrize("length", [1, 100])
def test_both_sides_get_the_same_prompt_inside_the_vocabulary(length: int) -> None:
    prompt = prompt_ids(length, 300)
    assert prompt == prompt_ids(length, 300)
    assert len(prompt) == length
    assert all(0 <= id < 300 for id in prompt)
