"""State of sequences: sizes, a clean beginning, copies of one slot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.config import EngineConfig
from engine.errors import CapacityError
from engine.kv.layout import PagedState, SlottedState, StateLayout
from engine.kv.memory import SequenceMemory

LAYOUT = StateLayout(
    paged=(
        PagedState(name="keys", layers=(1, 3), row=(2, 16)),
        PagedState(name="index_keys", layers=(3,), row=(8,), every=4),
    ),
    slotted=(
        SlottedState(name="delta_state", layers=(0, 2), row=(4, 16)),
        SlottedState(name="ngram_window", layers=(1,), row=(2,), type="i64", fill=77),
    ),
)
CONFIG = EngineConfig(
    model=Path("m"), kv_type="f16", kv_tokens=64, page_tokens=16, sequences_max=3, threads=1
)


@pytest.fixture
def memory() -> SequenceMemory:
    memory = SequenceMemory(LAYOUT, CONFIG)
    for slot in range(3):
        memory.clear(slot)
    return memory


def test_pages_and_slots_have_the_sizes_of_the_layout(memory: SequenceMemory) -> None:
    assert memory.paged("keys", 3).shape == (4, 16, 2, 16)
    assert memory.paged("index_keys", 3).shape == (4, 4, 8)
    assert memory.paged("keys", 1).dtype is torch.float16
    assert memory.slotted("delta_state", 2).shape == (3, 4, 16)
    assert memory.slotted("ngram_window", 1).dtype is torch.int64
    per_slot = 3 * LAYOUT.bytes_per_sequence
    assert memory.num_bytes == 64 * LAYOUT.bytes_per_token("f16") + per_slot


def test_cleared_slot_is_that_of_a_sequence_without_tokens(memory: SequenceMemory) -> None:
    memory.slotted("delta_state", 0).fill_(5)
    memory.slotted("ngram_window", 1).fill_(5)
    memory.clear(1)
    assert memory.slotted("delta_state", 0).flatten(1).any(1).tolist() == [True, False, True]
    assert memory.slotted("ngram_window", 1).tolist() == [[5, 5], [77, 77], [5, 5]]


def test_snapshot_is_a_copy_that_any_slot_can_become(memory: SequenceMemory) -> None:
    state = memory.slotted("delta_state", 2)
    state[0] = 1.5
    snapshot = memory.snapshot(0)
    state.fill_(9)
    memory.restore(2, snapshot)
    assert [float(slot.unique()) for slot in state] == [9, 9, 1.5]
    assert snapshot.num_bytes == LAYOUT.bytes_per_sequence


def test_random_state_fills_the_pages_and_the_slot_alone(memory: SequenceMemory) -> None:
    keys, state = memory.paged("keys", 1), memory.slotted("delta_state", 0)
    keys.zero_()
    memory.randomise([2], 1)
    assert keys.flatten(1).any(1).tolist() == [False, False, True, False]
    assert state.flatten(1).any(1).tolist() == [False, True, False]


def test_memory_that_cannot_be_had_names_the_flags() -> None:
    with pytest.raises(CapacityError, match="lower --kv-tokens or --sequences-max"):
        SequenceMemory(LAYOUT, replace(CONFIG, kv_tokens=1 << 52))
