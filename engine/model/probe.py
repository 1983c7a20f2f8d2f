"""Shows a model's intermediate values to a listener: to tests that hold them against a reference.

Without a listener, as in serving, nothing is copied or kept.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Listener = Callable[[str, int, Tensor], None]


class Probe:
    """Called with (name, layer, value); a value may be changed in place after the call."""

    def __init__(self) -> None:
        self.listener: Listener | None = None

    def __call__(self, name: str, layer: int, value: Tensor) -> None:
        if self.listener is not None:
            self.listener(name, layer, value)
