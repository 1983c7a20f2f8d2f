"""What the ops of the sparse index refuse: a ShapeError that begins with the argument's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch

from engine.errors import ShapeError
from engine.kernels import ops
from engine.kernels.ops import PagedTokens, Selection, Spans

INT = torch.int32


def ints(*values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=INT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """A call of pool_index_keys: two sequences, three tokens of the first and one of the second."""

    raw: torch.Tensor
    weight: torch.Tensor
    inv_freq: torch.Tensor
    pool: torch.Tensor
    partial: torch.Tensor
    page_table: torch.Tensor
    sequence: torch.Tensor
    positions: torch.Tensor
    offsets: torch.Tensor
    slots: torch.Tensor
    ratio: int = 2

    def run(self) -> None:
        tokens = PagedTokens(
            page_table=self.page_table, sequence=self.sequence, positions=self.positions
        )
        ops.pool_index_keys(
            *(self.raw, self.weight, 1e-6, self.inv_freq, self.pool, self.partial, tokens),
            Spans(offsets=self.offsets, slots=self.slots),
            ratio=self.ratio,
        )


def pooling(**changes: object) -> Pooling:
    good = Pooling(
        raw=torch.zeros(4, 8),
        weight=torch.zeros(8),
        inv_freq=torch.zeros(4, dtype=torch.float64),
        pool=torch.zeros(5, 2, 8),
        partial=torch.zeros(3, 8),
        page_table=ints([0, 1], [2, 3]),
        sequence=ints(0, 0, 0, 1),
        positions=ints(4, 5, 6, 7),
        offsets=ints(0, 3, 4),
        slots=ints(2, 0),
    )
    return replace(good, **changes)  # type: ignore[arg-type]


POOLING: dict[str, tuple[str, Pooling]] = {
    "raw axes": ("raw: shape", pooling(raw=torch.zeros(4, 1, 8))),
    "raw dtype": ("raw: torch.float64", pooling(raw=torch.zeros(4, 8).double())),
    "raw width": ("raw: heads of 4", pooling(raw=torch.zeros(4, 4))),
    "weight": ("weight: shape", pooling(weight=torch.zeros(9))),
    "pairs": ("inv_freq: 5 pairs", pooling(inv_freq=torch.zeros(5, dtype=torch.float64))),
    "frequencies": ("inv_freq: torch.float32", pooling(inv_freq=torch.zeros(4))),
    "pool width": ("pool: shape", pooling(pool=torch.zeros(5, 2, 16))),
    "pool dtype": ("pool: torch.bfloat16", pooling(pool=torch.zeros(5, 2, 8).bfloat16())),
    "pool strides": ("pool: not contiguous", pooling(pool=torch.zeros(5, 4, 8)[:, ::2])),
    "partial": ("partial: shape", pooling(partial=torch.zeros(3, 16))),
    "no ratio": ("ratio: 0", pooling(ratio=0)),
    "vast ratio": ("ratio: 4294967296", pooling(ratio=1 << 32)),
    "tokens": ("sequence: shape", pooling(sequence=ints(0, 0, 0, 1, 1))),
    "sequence": ("sequence: outside", pooling(sequence=ints(0, 0, 0, 2))),
    "negative": ("positions: outside", pooling(positions=ints(-1, 0, 1, 7))),
    "beyond": ("positions: outside", pooling(positions=ints(4, 5, 6, 8))),
    "page": ("page_table: a page", pooling(page_table=ints([0, 1], [2, 5]))),
    "span count": ("offsets: shape", pooling(offsets=ints(0, 4))),
    "span start": ("offsets: [1, 3, 4]", pooling(offsets=ints(1, 3, 4))),
    "span end": ("offsets: [0, 3, 5]", pooling(offsets=ints(0, 3, 5))),
    "span order": ("offsets: [0, 5, 4]", pooling(offsets=ints(0, 5, 4))),
    "slot": ("slots: outside 0..2", pooling(slots=ints(3, 0))),
    "negative slot": ("slots: outside 0..2", pooling(slots=ints(2, -1))),
    "slot twice": ("slots: one is given twice", pooling(slots=ints(2, 2))),
    "slot dtype": ("slots: torch.int64", pooling(slots=torch.tensor([2, 0]))),
    "gap": ("spans: one is not consecutive", pooling(positions=ints(3, 5, 6, 7))),
    "mixed span": ("spans: one is not consecutive", pooling(offsets=ints(0, 2, 4))),
    "one sequence twice": (
        "spans: two are of the same sequence",
        pooling(sequence=ints(0, 0, 0, 0), positions=ints(4, 5, 6, 7)),
    ),
}


@pytest.mark.parametrize(("message", "call"), POOLING.values(), ids=POOLING.keys())
def test_pool_index_keys_refuses_by_name(message: str, call: Pooling) -> None:
    with pytest.raises(ShapeError) as caught:
        call.run()
    assert str(caught.value).startswith(message)


def places(table: int = 0, sequence: int = 0, position: int = 7) -> PagedTokens:
    return PagedTokens(
        page_table=torch.full((1, 2), table, dtype=INT),
        sequence=ints(sequence),
        positions=ints(position),
    )


def select(
    q: torch.Tensor = torch.zeros(1, 3, 8),  # noqa: B008 - never written
    pool: torch.Tensor = torch.zeros(3, 2, 8),  # noqa: B008
    tokens: PagedTokens = places(),  # noqa: B008
    ratio: int = 2,
    best: int = 2,
) -> torch.Tensor:
    return ops.select_blocks(q, pool, tokens, ratio=ratio, best=best)


def attend(blocks: object = ((0, 2),), ratio: int = 2, position: int = 7) -> torch.Tensor:
    """Attention of one token at `position`; `blocks` is a nested list, or a tensor as it is."""
    table = blocks if isinstance(blocks, torch.Tensor) else torch.tensor(blocks, dtype=INT)
    pool = torch.zeros(3, 4, 2, 8)
    selection = Selection(blocks=table, ratio=ratio)
    q, tokens = torch.zeros(1, 2, 8), places(position=position)
    return ops.attention(q, pool, pool, tokens, scale=1.0, selection=selection)


REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "select axes": ("q: shape", lambda: select(q=torch.zeros(1, 8))),
    "select width": ("q: heads of 4", lambda: select(q=torch.zeros(1, 3, 4))),
    "select pool": ("pool: shape", lambda: select(pool=torch.zeros(3, 2, 16))),
    "select pool dtype": ("pool: torch.int32", lambda: select(pool=torch.zeros(3, 2, 8).int())),
    "select ratio": ("ratio: -1", lambda: select(ratio=-1)),
    "select none": ("best: 0", lambda: select(best=0)),
    "select tokens": ("sequence: shape", lambda: select(q=torch.zeros(2, 3, 8))),
    "select page": ("page_table: a page", lambda: select(tokens=places(table=3))),
    "select sequence": ("sequence: outside", lambda: select(tokens=places(sequence=1))),
    "select position": ("positions: outside 0..7", lambda: select(tokens=places(position=8))),
    "select shorter pages": ("positions: outside 0..3", lambda: select(ratio=1)),
    "blocks axes": ("blocks: shape", lambda: attend(((0, 2), (0, 2)))),
    "blocks dtype": ("blocks: torch.int64", lambda: attend(torch.tensor([[0, 2]]))),
    "blocks ratio": ("ratio: 0", lambda: attend(ratio=0)),
    "blocks no room": ("blocks: room for no", lambda: attend(torch.zeros(1, 0, dtype=INT))),
    "blocks descend": ("blocks: not ascending", lambda: attend(((2, 0),))),
    "blocks twice": ("blocks: not ascending", lambda: attend(((1, 1),))),
    "blocks hole": ("blocks: not ascending", lambda: attend(((-1, 1),))),
    "blocks hole inside": ("blocks: not ascending", lambda: attend(((0, -1, 1),))),
    "blocks negative": ("blocks: not ascending", lambda: attend(((0, -2),))),
    "blocks first negative": ("blocks: not ascending", lambda: attend(((-2,),))),
    "blocks later": ("blocks: a block that is not", lambda: attend(((0, 4),))),
    "blocks unfinished": ("blocks: a block that is not", lambda: attend(((0, 3),), position=6)),
    "blocks nothing": ("blocks: a token without", lambda: attend(((-1, -1),))),
}


@pytest.mark.parametrize(("message", "call"), REFUSED.values(), ids=REFUSED.keys())
def test_argument_is_refused_by_name(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_accepted_calls_of_this_file_are_fine_without_the_fault() -> None:
    pooling().run()
    assert select().shape == (1, 2)
    assert attend().shape == (1, 2, 8)
    assert attend(((-1, -1),), position=6).shape == (1, 2, 8)
