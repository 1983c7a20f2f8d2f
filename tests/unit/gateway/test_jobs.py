"""From a checked request to what the scheduler is asked."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from helpers.text_metadata import tiny_tokenizer
from services.gateway.failures import BadRequest
from services.gateway.fanout import Job
from services.gateway.jobs import make_jobs
from services.gateway.requests import parse_completion
from services.pb import scheduler_pb2

CONTEXT = 16


TOKENIZER = tiny_tokenizer()
VOCABULARY = TOKENIZER.vocab_size


def jobs(prompts: Sequence[Sequence[int]] = ((1, 2, 3),), **fields: object) -> list[Job]:
    body = {"model": "m", "prompt": "x", **fields}
    return make_jobs(
        parse_completion(json.dumps(body).encode()),
        prompts,
        request_id="r",
        random_seed=1000,
        tokenizer=TOKENIZER,
        facts=scheduler_pb2.Description(vocab_size=VOCABULARY, context_tokens_max=CONTEXT),
        choices_max=6,
    )


def test_jobs_defaults_are_the_plain_distribution() -> None:
    (job,) = jobs()
    sampling = job.request.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p) == (1, 0, 1, 0)
    assert sampling.repetition_penalty == 1
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0, 0)
    assert sampling.seed == 1000
    assert not sampling.HasField("logprobs")
    assert list(job.request.stop_tokens) == sorted(TOKENIZER.stop_ids)
    assert job.request.max_tokens == CONTEXT - 3


def test_jobs_come_prompt_by_prompt_with_seeds_in_a_row() -> None:
    made = jobs([(1,), (2,)], n=2, seed=7)
    assert [list(job.request.prompt_tokens) for job in made] == [[1], [1], [2], [2]]
    assert [job.request.sampling.seed for job in made] == [7, 8, 9, 10]
    assert [job.request.request_id for job in made] == ["r/0", "r/1", "r/2", "r/3"]
    assert [job.choice.index for job in made] == [0, 1, 2, 3]


def test_jobs_seeds_wrap() -> None:
    made = jobs(n=2, seed=2**64 - 1)
    assert [job.request.sampling.seed for job in made] == [2**64 - 1, 0]


def test_jobs_top_p_of_zero_is_the_best_token() -> None:
    sampling = jobs(top_p=0)[0].request.sampling
    assert (sampling.top_k, sampling.top_p) == (1, 1)


@pytest.mark.parametrize("off", [0, -1])
def test_jobs_top_k_has_two_ways_to_be_off(off: int) -> None:
    assert jobs(top_k=off)[0].request.sampling.top_k == 0


def test_jobs_temperature_zero_is_not_the_default() -> None:
    assert jobs(temperature=0)[0].request.sampling.temperature == 0


@pytest.mark.parametrize(
    ("prompts", "fields", "param", "code"),
    [
        ([()], {}, "prompt", "invalid_value"),
        ([(VOCABULARY,)], {}, "prompt", "invalid_value"),
        ([(1,) * CONTEXT], {}, "prompt", "context_length_exceeded"),
        ([(1,)], {"max_tokens": CONTEXT}, "prompt", "context_length_exceeded"),
        ([(1,)], {"logit_bias": {str(VOCABULARY): 1}}, "logit_bias", "invalid_value"),
        ([(1,)], {"n": 7}, "n", "invalid_value"),
        ([(1,)] * 4, {"n": 2}, "n", "invalid_value"),
    ],
)
def test_jobs_refusal_names_the_field(
    prompts: list[tuple[int, ...]], fields: dict[str, object], param: str, code: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        jobs(prompts, **fields)
    assert (caught.value.param, caught.value.code) == (param, code)


def test_jobs_may_fill_the_context_to_the_last_token() -> None:
    assert jobs([(1,)], max_tokens=CONTEXT - 1)[0].request.max_tokens == CONTEXT - 1
