"""What a sequence's state is made of, by architecture: sizes only, no memory.

Two kinds. *Paged* state belongs to positions: keys, values, pooled index keys; it lies in pages
that a sequence is given one after another. *Slotted* state belongs to the sequence as a whole and
is overwritten by every token: recurrent states, tails of convolutions, the last token ids; a
sequence has one slot while it is open, and a copy of the slot is all that a snapshot needs.

Used by `engine.config` to resolve sizes and by `engine.kv.memory` to make them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from engine.gguf.shape import DecoderShape, ModelShape, Qwen4ExpShape

SLOT_VALUE_BYTES = {"f32": 4, "i64": 8}
PAGED_VALUE_BYTES = {"f32": 4, "f16": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedState:
    """A row of values in each of `layers` for `every` positions, in the cache's type."""

    name: str
    layers: tuple[int, ...]
    row: tuple[int, ...]
    every: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlottedState:
    """An array in each of `layers` per sequence; `fill` is its value before the first token."""

    name: str
    layers: tuple[int, ...]
    row: tuple[int, ...]
    type: str = "f32"
    fill: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayout:
    """All state of an architecture."""

    paged: tuple[PagedState, ...]
    slotted: tuple[SlottedState, ...] = ()

    @property
    def page_multiple(self) -> int:
        """A page holds a multiple of so many positions."""
        return lcm(*(state.every for state in self.paged))

    def bytes_per_token(self, kv_type: str) -> int:
        """Bytes of the paged state of one position."""
        per_multiple = sum(
            len(state.layers) * prod(state.row) * self.page_multiple // state.every
            for state in self.paged
        )
        return -(-per_multiple * PAGED_VALUE_BYTES[kv_type] // self.page_multiple)

    @property
    def bytes_per_sequence(self) -> int:
        """Bytes of one slot."""
        return sum(
            len(state.layers) * prod(state.row) * SLOT_VALUE_BYTES[state.type]
            for state in self.slotted
        )


def state_layout(shape: ModelShape) -> StateLayout:
    """The state that sequences of this model need."""
    match shape:
        case DecoderShape():
            return StateLayout(paged=_keys_and_values(tuple(range(shape.layers)), shape))
        case Qwen4ExpShape():
            return _qwen4exp(shape)


def _keys_and_values(
    layers: tuple[int, ...], shape: DecoderShape | Qwen4ExpShape
) -> tuple[PagedState, ...]:
    row = (shape.kv_heads, shape.head_dim)
    return tuple(PagedState(name=name, layers=layers, row=row) for name in ("keys", "values"))


def _qwen4exp(shape: Qwen4ExpShape) -> StateLayout:
    drafts = tuple(range(shape.layers, shape.layers + shape.draft_layers))
    attention = shape.attention_layers + drafts
    sparse = tuple(layer for layer in attention if shape.ratios[layer])
    index = tuple(
        PagedState(name="index_keys", layers=layers, row=(shape.index_dim,), every=ratio)
        for ratio in sorted({shape.ratios[layer] for layer in sparse})
        if (layers := tuple(layer for layer in sparse if shape.ratios[layer] == ratio))
    )
    recurrent = shape.recurrent_layers
    slotted = [
        SlottedState(
            name="delta_state",
            layers=recurrent,
            row=(shape.value_heads, shape.key_dim, shape.value_dim),
        ),
        SlottedState(name="delta_tail", layers=recurrent, row=(shape.conv_kernel - 1, shape.qkv)),
        SlottedState(name="index_partial", layers=sparse, row=(shape.index_dim,)),
    ]
    if (ngram := shape.ngram) is not None:
        tail = (ngram.conv_kernel - 1) * ngram.dilation
        window = len(ngram.multipliers) - 1
        at = (ngram.layer,)
        slotted += [
            SlottedState(name="ngram_tail", layers=at, row=(tail, shape.wide)),
            SlottedState(
                name="ngram_window", layers=at, row=(window,), type="i64", fill=ngram.end_token
            ),
        ]
    return StateLayout(paged=(*_keys_and_values(attention, shape), *index), slotted=tuple(slotted))
