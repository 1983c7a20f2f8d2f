"""Sampling that would break an engine is refused at the scheduler's door."""

from __future__ import annotations

from typing import Any

import pytest

from services.common.errors import InvalidRequest
from services.pb.common_pb2 import Sampling
from services.scheduler.sampling import LOGPROBS_MAX, check_sampling

PLAIN: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0, "repetition_penalty": 1.0}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.0},
        {"min_p": 1.0, "top_k": 5},
        {"presence_penalty": -2.0, "frequency_penalty": 2.0},
        {"logprobs": LOGPROBS_MAX},
        {"logit_bias": {0: -100.0, 99: 100.0}},
        {"seed": (1 << 64) - 1},
    ],
)
def test_sampling_within_bounds_passes(fields: dict[str, Any]) -> None:
    check_sampling(Sampling(**{**PLAIN, **fields}), vocab_size=100)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_p", 1.1),
        ("min_p", 1.1),
        ("min_p", float("nan")),
        ("repetition_penalty", 0.0),
        ("presence_penalty", float("inf")),
        ("frequency_penalty", float("nan")),
        ("logprobs", LOGPROBS_MAX + 1),
        ("logit_bias", {100: 1.0}),
        ("logit_bias", {1: float("nan")}),
    ],
)
def test_sampling_out_of_bounds_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_sampling(Sampling(**{**PLAIN, field: value}), vocab_size=100)
    assert caught.value.param == f"sampling.{field}"
