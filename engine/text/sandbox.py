"""The Jinja environment that chat templates run in: what Transformers offers them, and no more.

Owned by `chat.py`. A template comes with the model file and is code from a stranger. The sandbox
keeps it from Python's internals and from changing what it is given; `Limits` bounds how much it
may loop, repeat and write. Within those bounds it can still be slow, and it can grow a text by
adding or padding: no defence against an author who wants to exhaust the gateway's memory.
Source: Transformers, "Chat templates" guide: extensions, `tojson`, `raise_exception`,
`strftime_now`; `generation` blocks mark training targets and are rendered as their content.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateRuntimeError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one rendering."""

    output_chars_max: int = 32 << 20
    range_items_max: int = 1_000_000  # over all calls of `range` together
    repeat_items_max: int = 1 << 20  # length of a text or list made by `*`


class TemplateRefusal(TemplateError):
    """The template called `raise_exception`: these messages are not for this model."""


class _GenerationBlock(Extension):
    """{% generation %} … {% endgeneration %}"""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """Renders templates of model files. Shared by threads: it holds no state of a rendering."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, limits: Limits, now: Callable[[], datetime]) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _GenerationBlock]
        )
        self.limits = limits
        for name in ("lipsum", "cycler", "joiner"):
            del self.globals[name]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda pattern: now().strftime(pattern)
        self.filters["tojson"] = _tojson

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse the operators that make a huge value of two small ones."""
        if operator == "**":
            raise TemplateRuntimeError("'**' is not available in chat templates")
        self._check_repeat(left, right)
        self._check_repeat(right, left)
        return super().call_binop(context, operator, left, right)

    def _check_repeat(self, what: Any, count: Any) -> None:
        repeats = isinstance(what, str | list | tuple) and isinstance(count, int)
        if repeats and len(what) * count > self.limits.repeat_items_max:
            raise TemplateRuntimeError(f"a repetition of {len(what) * count} items is too long")

    def counted_range(self) -> Callable[..., range]:
        """A `range` for one rendering, whose calls share one budget."""
        left = self.limits.range_items_max

        def limited(*bounds: int) -> range:
            nonlocal left
            items = range(*bounds)
            left -= len(items)
            if left < 0:
                raise TemplateRuntimeError(
                    f"more than {self.limits.range_items_max} loops over ranges"
                )
            return items

        return limited


def _raise_exception(message: object) -> NoReturn:
    raise TemplateRefusal(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models are trained on it; Jinja's own filter escapes for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
