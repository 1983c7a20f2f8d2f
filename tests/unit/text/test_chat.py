"""Chat templates: what they are given, what they may do, how they fail."""

from __future__ import annotations

from datetime import datetime

import pytest

from engine.errors import PromptError, TextError
from engine.text.chat import ChatTemplate
from engine.text.sandbox import Limits
from helpers.text_metadata import tiny_tokenizer

USER = [{"role": "user", "content": "Hi"}]
SMALL = Limits(output_chars_max=1000, range_items_max=100, repeat_items_max=100)


def rendered(source: str, messages: object = None, **arguments: object) -> str:
    template = ChatTemplate(source, limits=SMALL, now=lambda: datetime(2026, 2, 3))
    return template.render(USER if messages is None else messages, **arguments)  # type: ignore[arg-type]


def test_template_writes_turns_and_the_generation_prompt() -> None:
    source = (
        "{% for m in messages %}\n  {{- '<|' + m.role + '|>' + m['content'] }}\n{% endfor %}\n"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    messages = [{"role": "system", "content": "S"}, *USER]
    assert rendered(source, messages) == "<|system|>S\n<|user|>Hi\n<|assistant|>"
    assert rendered(source, messages, add_generation_prompt=False) == "<|system|>S\n<|user|>Hi\n"


def test_template_knows_the_files_begin_and_end_tokens() -> None:
    metadata = {"tokenizer.chat_template": "{{ bos_token }}|{{ eos_token }}"}
    template = ChatTemplate.from_metadata(metadata, tiny_tokenizer())
    assert template is not None
    assert template.render(USER) == "<|endoftext|>|<|im_end|>"


def test_file_without_template_has_none() -> None:
    assert ChatTemplate.from_metadata({}, tiny_tokenizer()) is None


def test_template_is_given_the_callers_switches() -> None:
    source = (
        "{% if enable_thinking is defined and enable_thinking is false %}off"
        "{% else %}{{ reasoning_effort | default('xhigh') }}{% endif %}"
    )
    assert rendered(source) == "xhigh"
    assert rendered(source, reasoning_effort="low") == "low"
    assert rendered(source, enable_thinking=False) == "off"


def test_template_writes_tools_as_json_without_html_escapes() -> None:
    tools = [{"name": "f", "text": "é<b>'&"}]
    assert rendered("{{ tools[0] | tojson }}", tools=tools) == '{"name": "f", "text": "é<b>\'&"}'
    assert rendered("{{ tools[0] | tojson(indent=1) }}", tools=[{"a": 1}]) == '{\n "a": 1\n}'
    assert rendered("{% if tools is none %}none{% endif %}") == "none"


def test_template_is_given_tool_arguments_as_objects() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    source = (
        "{% for k, v in messages[0].tool_calls[0].function.arguments | items %}{{ k }}={{ v }}"
        "{% endfor %}"
    )
    assert rendered(source, messages) == "x=1"
    assert call["function"]["arguments"] == '{"x": 1}'  # type: ignore[index]


def test_template_joins_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert rendered("{{ messages[0].content }}", [{"role": "user", "content": parts}]) == "a\nb"


CONVERSATION = """
{%- set ns = namespace(last=0) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if m.role == "user" and m.content is string and not m.content.startswith("<tool") %}
        {%- set ns.last = index %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.role == "assistant" and m.reasoning_content is defined and (preserve_thinking
            | default(true) or loop.index0 > ns.last) %}
        {{- "<think>" ~ m.reasoning_content.strip("\\n") ~ "</think>" }}
    {%- endif %}
    {{- m.content | trim + "%s" % ";" }}
{%- endfor %}
"""


def test_template_may_use_what_published_templates_use() -> None:
    messages = [
        {"role": "user", "content": " q1 "},
        {"role": "assistant", "content": "a1", "reasoning_content": "r1\n"},
        {"role": "user", "content": "q2"},
        {"role": "assistant", "content": "a2", "reasoning_content": "r2"},
        {"role": "user", "content": "<tool_response>"},
    ]
    kept = rendered(CONVERSATION, messages)
    assert kept == "q1;<think>r1</think>a1;q2;<think>r2</think>a2;<tool_response>;"
    left_out = rendered(CONVERSATION, messages, preserve_thinking=False)
    assert left_out == "q1;a1;q2;<think>r2</think>a2;<tool_response>;"


def test_template_may_break_out_of_loops_and_ask_for_the_date() -> None:
    assert (
        rendered("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}")
        == "01"
    )
    assert rendered("{{ strftime_now('%d %b %Y') }}") == "03 Feb 2026"
    assert rendered("{% generation %}x{% endgeneration %}") == "x"


REFUSED_MESSAGES = {
    "no role": ({"content": "x"}, "message 0 has no role"),
    "content of wrong type": ({"role": "user", "content": 3}, "content of message 0"),
    "an image": (
        {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
        "message 0 has a part of type 'image_url'",
    ),
    "a part that is no part": ({"role": "user", "content": ["x"]}, "a part of type None"),
    "a text part without text": (
        {"role": "user", "content": [{"type": "text"}]},
        "message 0 has a text part without text",
    ),
    "a call without function": (
        {"role": "assistant", "tool_calls": [{}]},
        "message 0 has a tool call without a function",
    ),
    "arguments that are no JSON": (
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
        "message 0 has a tool call whose arguments are not JSON",
    ),
}


@pytest.mark.parametrize(("message", "reason"), REFUSED_MESSAGES.values(), ids=REFUSED_MESSAGES)
def test_messages_are_refused(message: dict[str, object], reason: str) -> None:
    with pytest.raises(PromptError, match=reason):
        rendered("x", [message])


REFUSED_RENDERINGS = {
    "raise_exception": ("{{ raise_exception('Roles must alternate') }}", "Roles must alternate"),
    "a missing name": ("{{ messages[0].nothing.here }}", "nothing"),
    "a wrong type": ("{{ 'a' + 1 }}", "str"),
    "division by zero": ("{{ 1 // 0 }}", "zero"),
    "Python's internals": ("{{ ''.__class__.__mro__ }}", "unsafe"),
    "a changed argument": ("{{ messages.append(1) }}", "unsafe"),
    "too much output": (
        "{% for i in range(99) %}{{ 'x' * 99 }}{% endfor %}",
        "more than 1000 char",
    ),
    "one long range": ("{% for i in range(101) %}{% endfor %}", "more than 100 loops"),
    "nested ranges": (
        "{% for i in range(50) %}{% for j in range(50) %}{% endfor %}{% endfor %}",
        "more than 100 loops",
    ),
    "a long repetition": ("{{ ('x' * 101) | length }}", "101 items is too long"),
    "a repetition from the left": ("{{ (101 * [1]) | length }}", "101 items is too long"),
    "a power": ("{{ 10 ** 10 ** 10 }}", "not available"),
    "ranges in a macro": (
        "{% macro f() %}{% for i in range(60) %}{% endfor %}{% endmacro %}{{ f() }}{{ f() }}",
        "more than 100 loops",
    ),
    "endless recursion": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"),
}


@pytest.mark.parametrize(("source", "reason"), REFUSED_RENDERINGS.values(), ids=REFUSED_RENDERINGS)
def test_rendering_is_refused(source: str, reason: str) -> None:
    with pytest.raises(PromptError, match=reason):
        rendered(source)


def test_range_budget_is_that_of_one_rendering() -> None:
    template = ChatTemplate("{% for i in range(60) %}.{% endfor %}", limits=SMALL)
    assert [template.render(USER) for _ in range(3)] == ["." * 60] * 3


REFUSED_TEMPLATES = {
    "an open block": ("{% for m in messages %}\n{% if", "chat_template line 2"),
    "an unknown filter": ("{{ messages | nonsense }}", "nonsense"),
    "too long a source": (" " * ((1 << 20) + 1), "1048577 characters"),
    "deep nesting": ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "cannot be compiled"),
}


@pytest.mark.parametrize(("source", "reason"), REFUSED_TEMPLATES.values(), ids=REFUSED_TEMPLATES)
def test_template_is_refused_when_loaded(source: str, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        ChatTemplate(source)


def test_template_of_wrong_type_is_refused() -> None:
    with pytest.raises(TextError, match=r"tokenizer\.chat_template is 3, not a string"):
        ChatTemplate.from_metadata({"tokenizer.chat_template": 3}, tiny_tokenizer())


def test_user_text_with_markers_is_parsed_like_the_templates_own() -> None:
    """As in the field; the module says what an application has to do about it."""
    tokenizer = tiny_tokenizer()
    template = ChatTemplate("{{ messages[0].content }}<|im_end|>")
    text = template.render([{"role": "user", "content": "a<|im_end|>"}])
    ids = tokenizer.encode(text, parse_special=True)
    assert ids.count(tokenizer.eos_id) == 2  # type: ignore[arg-type]
