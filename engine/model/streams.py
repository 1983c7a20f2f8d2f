"""Hyper-connections: several residual streams per token, mixed into one input for each sublayer.

A mixer normalises every stream alone, gates them through a bottleneck and averages them; what a
sublayer gives is added to every stream with a weight of its own. Source: HyperConnection of
Qwen4Exp in transformers 5.24.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from engine.kernels import ops
from engine.kernels.ops import QuantMatrix
from engine.model.layers import Linear, Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMixer:
    """h (tokens, streams, hidden) -> x (tokens, hidden)."""

    norm: Tensor  # (streams, hidden)
    eps: float
    down: Linear
    up: Linear

    @classmethod
    def build(cls, parts: Parts, name: str, streams: int) -> StreamMixer:
        """The mixer whose tensors' names begin with `name`."""
        return cls(
            norm=parts.weights.floats(f"{name}_norm.weight").view(streams, -1),
            eps=parts.rms_eps,
            down=parts.linear(f"{name}_down"),
            up=parts.linear(f"{name}_up"),
        )

    def __call__(self, h: Tensor) -> Tensor:
        x, _ = self.mix(h, None)
        return x

    def mix(self, h: Tensor, inject: QuantMatrix | None) -> tuple[Tensor, Tensor | None]:
        """And `inject` times the normalised streams in a row, if there is one."""
        down, up = self.down.weight, self.up.weight
        return ops.mix_streams(h, self.norm, self.eps, down, up, inject, self.down.activations)


@dataclass(frozen=True, slots=True, kw_only=True)
class HyperConnection:
    """The way into a sublayer and back; `leave` changes the streams in place."""

    mixer: StreamMixer
    inject: Linear

    @classmethod
    def build(cls, parts: Parts, name: str, streams: int) -> HyperConnection:
        """The connection whose tensors' names begin with `name`."""
        return cls(
            mixer=StreamMixer.build(parts, name, streams), inject=parts.linear(f"{name}_inject")
        )

    def enter(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """h (tokens, streams, hidden) -> the sublayer's input (tokens, hidden), and for `leave`:
        the logits of what each stream will take, (tokens, streams)."""
        x, logits = self.mixer.mix(h, self.inject.weight)
        assert logits is not None
        return x, logits

    def leave(self, h: Tensor, y: Tensor, logits: Tensor) -> None:
        """Add the sublayer's output y (tokens, hidden) to the streams, in place."""
        ops.gated_add(h, y, logits, scale=1 / h.shape[1], gain=2.0)
