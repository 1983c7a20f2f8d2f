"""A chat template of our own with the switches and the output of the Qwen3.8 family's."""

from __future__ import annotations

QWEN = r"""
{%- set effort = reasoning_effort if reasoning_effort is defined else 'xhigh' %}
{%- set notes = {'xhigh': 'Think as long as it takes.', 'low': 'Think briefly.', 'medium': ''} %}
{%- if effort not in notes %}
    {{- raise_exception('unknown reasoning_effort ' ~ effort) }}
{%- endif %}
{%- set thinking = enable_thinking is not defined or enable_thinking %}
{%- set keep = preserve_thinking is not defined or preserve_thinking %}
{%- set ns = namespace(system=[], last_user=-1, in_results=false) %}
{%- if notes[effort] and thinking %}{% set ns.system = ns.system + [notes[effort]] %}{% endif %}
{%- if tools %}
    {%- set lines = tools | map('tojson') | join('\n') %}
    {%- set ns.system = ns.system + ['<tools>\n' ~ lines ~ '\n</tools>'] %}
{%- endif %}
{%- for message in messages if message.role in ('system', 'developer') %}
    {%- set ns.system = ns.system + [message.content | trim] %}
{%- endfor %}
{%- if ns.system %}
    {{- '<|im_start|>system\n' ~ ns.system | join('\n\n') ~ '<|im_end|>\n' }}
{%- endif %}
{%- macro call(tool_call) %}
    {{- '\n<tool_call>\n<function=' ~ tool_call.function.name ~ '>\n' }}
    {%- for key, value in tool_call.function.arguments | items %}
        {%- set text = value if value is string else value | tojson %}
        {{- '<parameter=' ~ key ~ '>\n' ~ text ~ '\n</parameter>\n' }}
    {%- endfor %}
    {{- '</function>\n</tool_call>' }}
{%- endmacro %}
{%- for message in messages if message.role == 'user' %}
    {%- set ns.last_user = loop.index0 %}
{%- endfor %}
{%- for message in messages if message.role not in ('system', 'developer') %}
    {%- if message.role == 'tool' %}
        {%- if loop.previtem is not defined or loop.previtem.role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' ~ message.content | trim ~ '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\n' }}{% endif %}
    {%- elif message.role == 'assistant' %}
        {%- set reasoning = message.reasoning_content | default('') %}
        {%- set content = message.content or '' %}
        {%- if not reasoning and '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].split('<think>')[-1].strip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' }}
        {%- if keep and reasoning %}
            {{- '<think>\n' ~ reasoning.strip() ~ '\n</think>\n\n' }}
        {%- endif %}
        {{- content | trim }}
        {%- for tool_call in message.tool_calls or [] %}{{ call(tool_call) }}{% endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'user' %}
        {{- '<|im_start|>user\n' ~ message.content | trim ~ '<|im_end|>\n' }}
    {%- else %}
        {{- raise_exception('unknown role ' ~ message.role) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n<think>\n' ~ ('' if thinking else '\n</think>\n\n') }}
{%- endif %}
"""
