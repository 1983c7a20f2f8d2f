"""The switches of the Qwen3.8 family's chat template, rendered from beginning to end."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import PromptError
from engine.text.chat import ChatTemplate
from helpers.qwen_template import QWEN

USER = {"role": "user", "content": " Hi \n"}
HI = "<|im_start|>user\nHi<|im_end|>\n"
THINK = "<|im_start|>assistant\n<think>\n"
LONG = "<|im_start|>system\nThink as long as it takes.<|im_end|>\n"


def rendered(messages: Any = (USER,), **switches: Any) -> str:
    return ChatTemplate(QWEN).render(messages, **switches)


@pytest.mark.parametrize("switches", [{}, {"enable_thinking": True}])
def test_thinking_is_on_unless_told_otherwise(switches: dict[str, object]) -> None:
    assert rendered(**switches) == LONG + HI + THINK


def test_thinking_turned_off_gives_an_empty_thought() -> None:
    assert rendered(enable_thinking=False) == HI + THINK + "\n</think>\n\n"


@pytest.mark.parametrize(
    ("effort", "system"),
    [
        ("xhigh", LONG),
        ("medium", ""),
        ("low", "<|im_start|>system\nThink briefly.<|im_end|>\n"),
    ],
)
def test_effort_sets_the_system_turn(effort: str, system: str) -> None:
    assert rendered(reasoning_effort=effort) == system + HI + THINK


def test_unknown_effort_is_refused_by_name() -> None:
    with pytest.raises(PromptError, match="unknown reasoning_effort huge"):
        rendered(reasoning_effort="huge")


def test_system_and_developer_turns_are_merged_into_the_first() -> None:
    messages = [
        {"role": "system", "content": "Be kind. "},
        USER,
        {"role": "developer", "content": "Be brief."},
    ]
    system = "<|im_start|>system\nBe kind.\n\nBe brief.<|im_end|>\n"
    assert rendered(messages, reasoning_effort="medium") == system + HI + THINK


@pytest.mark.parametrize(
    "answer",
    [
        {"content": "4", "reasoning_content": "2+2"},
        {"content": "<think>\n2+2\n</think>\n\n4"},
    ],
)
@pytest.mark.parametrize(("switches", "kept"), [({}, True), ({"preserve_thinking": False}, False)])
def test_earlier_thoughts_are_replayed_unless_told_otherwise(
    answer: dict[str, object], switches: dict[str, object], kept: bool
) -> None:
    messages = [USER, {"role": "assistant", **answer}, USER]
    thought = "<think>\n2+2\n</think>\n\n" if kept else ""
    turn = f"<|im_start|>assistant\n{thought}4<|im_end|>\n"
    assert rendered(messages, reasoning_effort="medium", **switches) == HI + turn + HI + THINK


def test_tools_are_declared_as_lines_of_json() -> None:
    tools = [{"name": "add"}, {"name": "é"}]
    declared = '<tools>\n{"name": "add"}\n{"name": "é"}\n</tools>'
    text = rendered(tools=tools, reasoning_effort="medium")
    assert text == f"<|im_start|>system\n{declared}<|im_end|>\n" + HI + THINK


@pytest.mark.parametrize(
    "arguments", [{"a": 1, "note": "two\nlines"}, '{"a": 1, "note": "two\\nlines"}']
)
def test_calls_and_results_are_written_out(arguments: object) -> None:
    call = {"function": {"name": "add", "arguments": arguments}}
    messages = [
        USER,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "4"},
    ]
    parameters = "<parameter=a>\n1\n</parameter>\n<parameter=note>\ntwo\nlines\n</parameter>\n"
    expected = (
        f"{HI}<|im_start|>assistant\n\n<tool_call>\n<function=add>\n{parameters}</function>\n"
        "</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\n3\n</tool_response>\n"
        f"<tool_response>\n4\n</tool_response><|im_end|>\n{THINK}"
    )
    assert rendered(messages, reasoning_effort="medium") == expected


def test_no_generation_prompt_when_none_is_wanted() -> None:
    assert rendered(add_generation_prompt=False, reasoning_effort="medium") == HI


def test_template_tells_which_switches_it_knows() -> None:
    template = ChatTemplate(QWEN)
    assert template.knows("reasoning_effort")
    assert template.knows("preserve_thinking")
    assert not template.knows("effort")  # set by the template itself
    assert not template.knows("thinking_budget")
