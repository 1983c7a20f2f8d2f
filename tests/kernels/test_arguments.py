"""What ops refuse: each error is a ShapeError that begins with the argument's name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from engine.errors import ShapeError
from engine.gguf.types import GGMLType
from engine.kernels import ops
from engine.kernels.ops import PagedTokens, QuantMatrix, RopeStyle
from helpers.weights import random_matrix

W = random_matrix(GGMLType.Q8_0, 8, 32)
STACK = random_matrix(GGMLType.Q8_0, 32, 32, experts=2)
POOL = torch.zeros(3, 4, 2, 8)


def places(table: int = 0, sequence: int = 0, position: int = 0) -> PagedTokens:
    return PagedTokens(
        page_table=torch.full((1, 2), table, dtype=torch.int32),
        sequence=torch.tensor([sequence], dtype=torch.int32),
        positions=torch.tensor([position], dtype=torch.int32),
    )


def matrix(**changes: object) -> QuantMatrix:
    fields: dict[str, object] = {"data": W.data, "type": W.type, "rows": 8, "cols": 32} | changes
    return QuantMatrix(**fields)  # type: ignore[arg-type]


def attend(
    q: torch.Tensor = torch.zeros(1, 4, 8),  # noqa: B008 - never written
    k: torch.Tensor = POOL,
    v: torch.Tensor = POOL,
    tokens: PagedTokens = places(),  # noqa: B008
) -> torch.Tensor:
    return ops.attention(q, k, v, tokens, scale=1.0)


def ffn(
    ids: object = ((0, 1),),
    x: torch.Tensor = torch.zeros(1, 32),  # noqa: B008
    up: QuantMatrix = STACK,
    down: QuantMatrix = STACK,
    weights: torch.Tensor = torch.zeros(1, 2),  # noqa: B008
) -> torch.Tensor:
    table = torch.tensor(ids, dtype=torch.int32)
    return ops.expert_ffn(x, STACK, up, down, table, weights)


def rope(x: torch.Tensor, positions: torch.Tensor, pairs: int) -> None:
    ops.rope(x, positions, torch.ones(pairs, dtype=torch.float64), RopeStyle.NORM)


INT = torch.int32
REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "linear wrong width": ("x: shape", lambda: ops.linear(torch.zeros(2, 31), W)),
    "linear one axis": ("x: shape", lambda: ops.linear(torch.zeros(32), W)),
    "linear float64": ("x: torch.float64", lambda: ops.linear(torch.zeros(2, 32).double(), W)),
    "linear strides": ("x: not contiguous", lambda: ops.linear(torch.zeros(32, 2).T, W)),
    "linear device": ("x: on meta", lambda: ops.linear(torch.zeros(2, 32, device="meta"), W)),
    "embedding dtype": ("ids: torch.int32", lambda: ops.embedding(torch.zeros(1, dtype=INT), W)),
    "embedding high": ("ids: a row outside", lambda: ops.embedding(torch.tensor([8]), W)),
    "embedding low": ("ids: a row outside", lambda: ops.embedding(torch.tensor([-1]), W)),
    "norm width": ("x: shape", lambda: ops.rms_norm(torch.zeros(2, 7), torch.zeros(8), 1e-6)),
    "norm scalar": ("x: shape", lambda: ops.rms_norm(torch.tensor(1.0), torch.zeros(1), 1e-6)),
    "norm empty": ("x: shape", lambda: ops.rms_norm(torch.zeros(2, 0), torch.zeros(0), 1e-6)),
    "norm weight": ("weight: shape", lambda: ops.rms_norm(POOL, torch.zeros(4, 2, 8), 1e-6)),
    "rope axes": ("x: shape", lambda: rope(torch.zeros(2, 8), torch.zeros(2, dtype=INT), 4)),
    "rope positions": (
        "positions: shape",
        lambda: rope(torch.zeros(2, 1, 8), torch.zeros(3, dtype=INT), 4),
    ),
    "rope too wide": (
        "inv_freq: 5 pairs",
        lambda: rope(torch.zeros(2, 1, 8), torch.zeros(2, dtype=INT), 5),
    ),
    "swiglu": ("up: shape", lambda: ops.swiglu(torch.zeros(2, 8), torch.zeros(2, 9))),
    "router none": ("k: 0", lambda: ops.router_topk(torch.zeros(1, 4), 0, normalise=True)),
    "router many": ("k: 5", lambda: ops.router_topk(torch.zeros(1, 4), 5, normalise=True)),
    "ffn x": ("x: shape", lambda: ffn(x=torch.zeros(1, 33))),
    "ffn up": ("up:", lambda: ffn(up=random_matrix(GGMLType.Q8_0, 64, 32, experts=2))),
    "ffn down": ("down:", lambda: ffn(down=random_matrix(GGMLType.Q8_0, 32, 64, experts=2))),
    "ffn experts": ("down:", lambda: ffn(down=random_matrix(GGMLType.Q8_0, 32, 32, experts=3))),
    "ffn ids": ("ids: an expert beyond 1", lambda: ffn(ids=((0, 2),))),
    "ffn tokens": ("ids: shape", lambda: ffn(ids=((0, 1), (0, 1)))),
    "ffn weights": ("weights: shape", lambda: ffn(weights=torch.zeros(1, 3))),
    "store slots": (
        "slots: outside",
        lambda: ops.store_kv(torch.zeros(1, 2, 8), POOL, torch.tensor([12])),
    ),
    "store negative": (
        "slots: outside",
        lambda: ops.store_kv(torch.zeros(1, 2, 8), POOL, torch.tensor([-1])),
    ),
    "store heads": (
        "pool: shape",
        lambda: ops.store_kv(torch.zeros(1, 3, 8), POOL, torch.tensor([0])),
    ),
    "store dtype": (
        "pool: torch.bfloat16",
        lambda: ops.store_kv(torch.zeros(1, 2, 8), POOL.bfloat16(), torch.tensor([0])),
    ),
    "store head size": (
        "source: heads of 4",
        lambda: ops.store_kv(torch.zeros(1, 2, 4), torch.zeros(3, 4, 2, 4), torch.tensor([0])),
    ),
    "attention heads": ("q: 3 heads", lambda: attend(q=torch.zeros(1, 3, 8))),
    "attention no key heads": (
        "q: 4 heads",
        lambda: attend(k=torch.zeros(3, 4, 0, 8), v=torch.zeros(3, 4, 0, 8)),
    ),
    "attention head size": (
        "q: heads of 12",
        lambda: attend(
            q=torch.zeros(1, 4, 12), k=torch.zeros(3, 4, 2, 12), v=torch.zeros(3, 4, 2, 12)
        ),
    ),
    "attention values": ("v_pool: shape", lambda: attend(v=torch.zeros(2, 4, 2, 8))),
    "attention mixed pools": ("v_pool: torch.float16", lambda: attend(v=POOL.half())),
    "attention pool dtype": (
        "pool: torch.float64",
        lambda: attend(k=POOL.double(), v=POOL.double()),
    ),
    "attention page": ("page_table: a page", lambda: attend(tokens=places(table=3))),
    "attention sequence": ("sequence: outside", lambda: attend(tokens=places(sequence=1))),
    "attention position": ("positions: outside", lambda: attend(tokens=places(position=8))),
    "matrix size": ("weight data has 272 bytes", lambda: matrix(rows=7)),
    "matrix negative": ("-1 matrices of -8 rows", lambda: matrix(rows=-8, num_experts=-1)),
    "matrix block": ("cols: a row of 33", lambda: matrix(cols=33)),
    "matrix type": ("no kernels for weights of type Q8_K", lambda: matrix(type=GGMLType.Q8_K)),
    "matrix dtype": ("weight data must be", lambda: matrix(data=W.data.view(np.int8))),
    "matrix axes": ("weight data must be", lambda: matrix(data=W.data.reshape(8, -1))),
    "variant": ("no variant 'mmx'", lambda: ops.set_variant("mmx")),
}


@pytest.mark.parametrize(("message", "call"), REFUSED.values(), ids=REFUSED.keys())
def test_argument_is_refused_by_name(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_accepted_calls_of_this_file_are_fine_without_the_fault() -> None:
    assert attend().shape == (1, 4, 8)
    assert ffn().shape == (1, 32)
    assert matrix().num_bytes == W.num_bytes
