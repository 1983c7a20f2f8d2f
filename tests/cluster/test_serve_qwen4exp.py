"""`lamina serve` on a random `qwen4exp`: flags reach the engine, streams stay apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import openai
import pytest

from bench.model_files.plan import parse_types
from bench.model_files.qwen4exp import PRESETS
from bench.models import Model, write_model
from engine.api import Sampling
from engine.local import generate
from helpers.engines import opened, random_prompt
from helpers.system import System, serving

PROMPTS = [random_prompt(300, 5 + 17 * i, seed=i) for i in range(8)]
TOKENS = 24


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model and the n-gram table that it needs."""
    folder = tmp_path_factory.mktemp("qwen4exp")
    sizes = replace(PRESETS["tiny"], vocab=300, ngram_rows=2000)
    types = parse_types("experts=Q2_0,trunk=Q8_0,ngram=IQ4_NL")
    model = Model(sizes=sizes, types=types, seed=5, ngram_file=folder / "table.gguf")
    write_model(folder / "model.gguf", model)
    return folder / "model.gguf", folder / "table.gguf"


@pytest.fixture(scope="module")
def system(files: tuple[Path, Path]) -> Iterator[System]:
    """Few pages and slots, so that eight streams wait for each other and are preempted."""
    limits = ("--kv-tokens", "512", "--sequences-max", "5")
    flags = ("--ngram-table", str(files[1]), "--experts-per-token", "3", "--threads", "2")
    with serving(files[0], *limits, *flags) as running:
        yield running


async def test_concurrent_streams_equal_the_engine_alone(
    system: System, files: tuple[Path, Path]
) -> None:
    model, table = files
    with opened(model, ngram_table=table, experts_per_token=3) as engine:
        alone = [
            [each.token.token for each in generate(engine, [prompt], GREEDY, max_tokens=TOKENS)]
            for prompt in PROMPTS
        ]
        texts = [engine_text(model, tokens) for tokens in alone]
    async with openai.AsyncOpenAI(base_url=f"{system.url}/v1", api_key="none") as api:
        answers = await asyncio.gather(
            *(
                api.completions.create(
                    model="model", prompt=prompt, temperature=0, max_tokens=TOKENS,
                    extra_body={"ignore_eos": True},
                )
                for prompt in PROMPTS
            )
        )  # fmt: skip
    assert [answer.choices[0].text for answer in answers] == texts


def engine_text(model: Path, tokens: list[int]) -> str:
    from engine.text.load import load_text

    return load_text(model).tokenizer.decode(tokens)


async def test_fewer_experts_are_marked_in_the_model_list(system: System) -> None:
    async with httpx.AsyncClient() as http:
        (model,) = (await http.get(f"{system.url}/v1/models")).json()["data"]
    assert model["approximate"] is True
    assert (model["experts_per_token"], model["model_experts_per_token"]) == (3, 4)


GREEDY = Sampling(temperature=0)
