"""How `auto` is resolved, and what a refused cache says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.config import KV_TOKENS_AUTO_MAX, MIB, SEQUENCES_AUTO_MAX, EngineConfig, resolve
from engine.errors import CapacityError
from engine.gguf.shape import DecoderShape
from engine.kv.layout import PagedState, SlottedState, StateLayout, state_layout

SHAPE = DecoderShape(
    architecture="llama",
    name="m",
    vocab=100,
    layers=4,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=16,
    ff=64,
    experts=0,
    experts_used=0,
    expert_ff=0,
    context=4096,
    rms_eps=1e-6,
    rope_base=1e4,
    rope_dims=16,
    rope_factor=1.0,
    tied_output=True,
)
VALUES = 2 * 4 * 2 * 16  # keys and values of a position
PLENTY = 1 << 40


LAYOUT = state_layout(SHAPE)
RECURRENT = StateLayout(
    paged=(
        PagedState(name="keys", layers=(3,), row=(2, 16)),
        PagedState(name="index_keys", layers=(3,), row=(8,), every=12),
    ),
    slotted=(
        SlottedState(name="delta_state", layers=(0, 1, 2), row=(4, 16, 16)),
        SlottedState(name="ngram_window", layers=(1,), row=(2,), type="i64", fill=7),
    ),
)


def resolved(
    *,
    free_bytes: int = PLENTY,
    layout: StateLayout = LAYOUT,
    context: int = 4096,
    **options: Any,
) -> EngineConfig:
    config = EngineConfig(model=Path("m"), **options)
    return resolve(config, layout, context=context, free_bytes=free_bytes)


@pytest.mark.parametrize(
    ("activations", "kv_type", "expected"),
    [
        ("f32", "auto", "f32"),
        ("int8", "auto", "f16"),
        ("f32", "f16", "f16"),
        ("int8", "f32", "f32"),
    ],
)
def test_kv_type_follows_the_activations(activations: str, kv_type: str, expected: str) -> None:
    assert resolved(activations=activations, kv_type=kv_type).kv_type == expected


def test_bytes_per_token_count_keys_and_values_of_all_layers() -> None:
    assert LAYOUT.bytes_per_token("f32") == 4 * VALUES
    assert LAYOUT.bytes_per_token("f16") == 2 * VALUES


def test_state_that_is_kept_per_block_counts_its_share() -> None:
    assert RECURRENT.bytes_per_token("f16") == -(-2 * (12 * 2 * 16 + 8) // 12)


def test_slots_count_every_layer_and_type() -> None:
    assert LAYOUT.bytes_per_sequence == 0
    assert RECURRENT.bytes_per_sequence == 3 * 4 * 16 * 16 * 4 + 2 * 8


def test_pages_hold_whole_blocks() -> None:
    assert resolved(layout=RECURRENT).page_tokens == 24
    assert resolved(layout=RECURRENT, kv_tokens=25).kv_tokens == 48


def test_automatic_sequences_take_an_eighth_of_the_memory() -> None:
    free = 8 * 5 * RECURRENT.bytes_per_sequence
    assert resolved(layout=RECURRENT, free_bytes=free).sequences_max == 5
    assert resolved(layout=RECURRENT).sequences_max == SEQUENCES_AUTO_MAX
    assert resolved(layout=LAYOUT, free_bytes=MIB).sequences_max == SEQUENCES_AUTO_MAX


def test_sequences_that_do_not_fit_name_the_shortfall_and_the_flags() -> None:
    free = 99 * RECURRENT.bytes_per_sequence
    with pytest.raises(CapacityError, match=r"100 sequences 2 MiB.* --sequences-max would free"):
        resolved(layout=RECURRENT, sequences_max=100, kv_tokens=24, free_bytes=free)


@pytest.mark.parametrize(
    ("context", "sequences_max", "expected"),
    [
        (4096, 64, KV_TOKENS_AUTO_MAX),  # many sequences share a bounded cache
        (4096, 2, 8192),  # no more than all sequences can fill
        (1 << 17, 64, 1 << 17),  # one sequence can use its whole context
    ],
)
def test_automatic_cache_fits_context_and_sequences(
    context: int, sequences_max: int, expected: int
) -> None:
    assert resolved(context=context, sequences_max=sequences_max).kv_tokens == expected


def test_automatic_cache_takes_a_quarter_of_the_memory() -> None:
    free = 4 * 1600 * 4 * VALUES
    assert resolved(free_bytes=free).kv_tokens == 1600


def test_cache_is_made_of_whole_pages() -> None:
    assert resolved(kv_tokens=17).kv_tokens == 32
    assert resolved(kv_tokens=17, page_tokens=5).kv_tokens == 20


def test_threads_that_were_asked_for_are_kept() -> None:
    assert resolved(threads=3).threads == 3
    assert resolved().threads >= 1


def test_cache_of_all_free_memory_is_allowed() -> None:
    assert resolved(kv_tokens=1600, free_bytes=1600 * 4 * VALUES).kv_tokens == 1600


def test_cache_that_does_not_fit_names_the_shortfall_and_the_flag() -> None:
    tokens = 10 * MIB // (4 * VALUES)
    expected = (
        f"a KV cache of {tokens} positions needs 10 MiB, 3 MiB more than is free; "
        "a smaller --kv-tokens would free it"
    )
    with pytest.raises(CapacityError) as refused:
        resolved(kv_tokens=tokens, free_bytes=7 * MIB)
    assert str(refused.value) == expected


def test_automatic_cache_that_has_no_room_for_a_page_names_the_shortfall() -> None:
    with pytest.raises(CapacityError, match="of 16 positions needs 1 MiB, 1 MiB more"):
        resolved(free_bytes=1000)


def test_model_without_attention_has_room_for_every_position() -> None:
    layout = StateLayout(paged=(), slotted=RECURRENT.slotted)
    assert resolved(layout=layout, context=1000, sequences_max=2).kv_tokens == 2000
