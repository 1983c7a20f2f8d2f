"""`lamina generate`: text, JSON, chat, token ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.api import Sampling
from engine.local import generate
from engine.text.load import load_text
from helpers.engines import DEMO, opened
from services.cli.__main__ import main

ENGINE = ("--threads", "2", "--kv-tokens", "256")
Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: str, model: Path = DEMO) -> str:
    assert main(["generate", str(model), *ENGINE, *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def records(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def expected_tokens(prompt: list[int], max_tokens: int) -> list[int]:
    stop = load_text(DEMO).tokenizer.stop_ids
    with opened(DEMO) as engine:
        greedy = Sampling(temperature=0)
        stream = generate(engine, [prompt], greedy, max_tokens=max_tokens, stop_tokens=stop)
        return [each.token.token for each in stream]


def test_text_goes_on_from_the_prompt(capsys: Capture) -> None:
    tokenizer = load_text(DEMO).tokenizer
    expected = expected_tokens(tokenizer.encode("The lamp"), 12)
    output = run(capsys, "--prompt", "The lamp", "--max-tokens", "12")
    assert output == tokenizer.decode([t for t in expected if t not in tokenizer.stop_ids]) + "\n"


def test_json_tells_text_tokens_and_counts(capsys: Capture) -> None:
    output = run(capsys, "--prompt", "The lamp", "--max-tokens", "5", "--json")
    (record,) = records(output)
    tokenizer = load_text(DEMO).tokenizer
    prompt = tokenizer.encode("The lamp")
    assert record.pop("tokens_per_second") > 0
    assert record == {
        "text": run(capsys, "--prompt", "The lamp", "--max-tokens", "5").removesuffix("\n"),
        "tokens": expected_tokens(prompt, 5),
        "finish_reason": "length",
        "prompt_tokens": len(prompt),
        "completion_tokens": 5,
    }


def test_chat_uses_the_template_and_stops_by_itself(capsys: Capture) -> None:
    text = load_text(DEMO)
    assert text.chat_template is not None
    rendered = text.chat_template.render([{"role": "user", "content": "Hello"}])
    prompt = text.tokenizer.encode(rendered, parse_special=True)
    output = run(capsys, "--prompt", "Hello", "--chat", "--max-tokens", "120", "--json")
    (record,) = records(output)
    assert record["prompt_tokens"] == len(prompt)
    assert record["tokens"] == expected_tokens(prompt, 120)
    assert record["finish_reason"] == "stop"
    assert record["tokens"][-1] in text.tokenizer.stop_ids
    assert "<|im_end|>" not in record["text"]


def test_several_prompts_give_one_record_each_in_order(tmp_path: Path, capsys: Capture) -> None:
    prompts = [[5, 6, 7], [100], [9] * 40]
    (tmp_path / "t.json").write_text(json.dumps({"prompts": prompts}))
    output = run(capsys, "--tokens-json", str(tmp_path / "t.json"), "--max-tokens", "6", "--json")
    found = records(output)
    assert [record["tokens"] for record in found] == [expected_tokens(p, 6) for p in prompts]
    assert [record["prompt_tokens"] for record in found] == [3, 1, 40]


def test_several_prompts_as_text_are_in_order(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "t.json").write_text(json.dumps({"prompts": [[5, 6, 7], [100]]}))
    arguments = ("--tokens-json", str(tmp_path / "t.json"), "--max-tokens", "4")
    texts = [record["text"] for record in records(run(capsys, *arguments, "--json"))]
    assert run(capsys, *arguments) == "".join(text + "\n" for text in texts)


def test_seed_repeats_and_its_absence_does_not(capsys: Capture) -> None:
    drawn = ("--prompt", "The", "--temperature", "2", "--max-tokens", "24", "--json")
    seeded = [records(run(capsys, *drawn, "--seed", seed))[0]["tokens"] for seed in ("1", "1", "2")]
    assert seeded[0] == seeded[1] != seeded[2]
    free = [tuple(records(run(capsys, *drawn))[0]["tokens"]) for _ in range(2)]
    assert free[0] != free[1]


def test_filters_reach_the_sampler(capsys: Capture) -> None:
    hot = ("--prompt", "The", "--temperature", "5", "--max-tokens", "8", "--json")
    greedy = records(run(capsys, "--prompt", "The", "--max-tokens", "8", "--json"))[0]["tokens"]
    for limit in (("--top-k", "1"), ("--top-p", "1e-9"), ("--min-p", "1")):
        assert records(run(capsys, *hot, *limit))[0]["tokens"] == greedy
