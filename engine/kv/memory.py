"""The memory of sequences' state: pages for what positions keep, slots for what moves on.

Owned by the step runner (`engine.step`); layers read and write it through the places of a step
(`tables.py`). What there is, `layout.py` says. Untouched memory costs nothing: the system gives
pages of it on the first write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import EngineConfig
from engine.errors import CapacityError
from engine.kv.layout import StateLayout

PAGED_TYPES = {"f32": torch.float32, "f16": torch.float16}
SLOT_TYPES = {"f32": torch.float32, "i64": torch.int64}
Key = tuple[str, int]  # name of a state, layer


@dataclass(frozen=True, slots=True)
class SlotSnapshot:
    """A copy of one slot: what a sequence's state was after some token."""

    arrays: dict[Key, Tensor]

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())


class SequenceMemory:
    """State arrays by name and layer.

    paged    (num_pages, rows per page, *row), float32 or float16
    slotted  (slots, *row), float32, token ids int64
    """

    def __init__(self, layout: StateLayout, config: EngineConfig) -> None:
        self.page_tokens = config.page_tokens
        self.num_pages = config.kv_tokens // config.page_tokens
        self.num_slots = config.sequences_max
        self._fill = {state.name: state.fill for state in layout.slotted}
        kv_type = PAGED_TYPES[config.kv_type]
        try:
            self._paged = {
                (state.name, layer): torch.empty(
                    (self.num_pages, self.page_tokens // state.every, *state.row), dtype=kv_type
                )
                for state in layout.paged
                for layer in state.layers
            }
            self._slotted = {
                (state.name, layer): torch.empty(
                    (self.num_slots, *state.row), dtype=SLOT_TYPES[state.type]
                )
                for state in layout.slotted
                for layer in state.layers
            }
        except RuntimeError as error:
            raise CapacityError(
                f"no memory for {self.num_pages} KV pages and {self.num_slots} sequences; "
                f"lower --kv-tokens or --sequences-max ({error})"
            ) from None

    def paged(self, name: str, layer: int) -> Tensor:
        """The pages of one state of one layer."""
        return self._paged[name, layer]

    def slotted(self, name: str, layer: int) -> Tensor:
        """The slots of one state of one layer."""
        return self._slotted[name, layer]

    @property
    def num_bytes(self) -> int:
        """Bytes of all pages and slots, touched or not."""
        return sum(array.nbytes for array in (*self._paged.values(), *self._slotted.values()))

    def clear(self, slot: int) -> None:
        """Make a slot that of a sequence without tokens."""
        for (name, _), array in self._slotted.items():
            array[slot].fill_(self._fill[name])

    def randomise(self, pages: Sequence[int], slot: int) -> None:
        """Fill pages and a slot with normal values, always the same ones; for benchmarks."""
        generator = torch.Generator().manual_seed(slot)
        for array in self._paged.values():
            for page in pages:
                array[page] = torch.randn(array.shape[1:], generator=generator).to(array.dtype)
        for array in self._slotted.values():
            if array.is_floating_point():
                array[slot] = torch.randn(array.shape[1:], generator=generator)

    def snapshot(self, slot: int) -> SlotSnapshot:
        """Copy a slot."""
        return SlotSnapshot({key: array[slot].clone() for key, array in self._slotted.items()})

    def restore(self, slot: int, snapshot: SlotSnapshot) -> None:
        """Make a slot what a slot was when the snapshot was taken."""
        for key, array in self._slotted.items():
            array[slot].copy_(snapshot.arrays[key])
