"""Refuses sampling that an engine could not follow, before it reaches one that others share."""

from __future__ import annotations

import math

from services.common.errors import InvalidRequest
from services.pb.common_pb2 import Sampling

LOGPROBS_MAX = 64  # of a token; they are sent with every token


def check_sampling(sampling: Sampling, vocab_size: int) -> None:
    """Raises InvalidRequest that names the field."""
    allowed = {
        "temperature": 0 <= sampling.temperature < math.inf,
        "top_p": 0 <= sampling.top_p <= 1,
        "min_p": 0 <= sampling.min_p <= 1,
        "repetition_penalty": 0 < sampling.repetition_penalty < math.inf,
        "presence_penalty": math.isfinite(sampling.presence_penalty),
        "frequency_penalty": math.isfinite(sampling.frequency_penalty),
        "logprobs": sampling.logprobs <= LOGPROBS_MAX,
        "logit_bias": all(
            token < vocab_size and math.isfinite(bias)
            for token, bias in sampling.logit_bias.items()
        ),
    }
    for name, fine in allowed.items():
        if not fine:
            param = f"sampling.{name}"
            raise InvalidRequest(f"{param} is {getattr(sampling, name)}", param=param)
