"""expert_ffn against the reference: routing of every kind, mixed types, both activations.

Float activations keep 2e-5 of the largest output. With int8 activations the inner values of the
two sides differ in the last bit and may round to neighbouring codes: 1e-2 of the largest output.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from engine.gguf.types import LAYOUTS, GGMLType
from engine.kernels import ops, reference
from engine.kernels.ops import Activations, QuantMatrix
from helpers.weights import KERNEL_TYPES, activations, random_matrix

HIDDEN, FF, EXPERTS = 256, 256, 6
BOUNDS = {Activations.F32: 2e-5, Activations.INT8: 1e-2, Activations.INT16: 1e-3}
each_mode = pytest.mark.parametrize("mode", Activations, ids=lambda mode: mode.value)


@dataclass(frozen=True, slots=True)
class Experts:
    """The three stacks of a layer."""

    gate: QuantMatrix
    up: QuantMatrix
    down: QuantMatrix


def layer(
    gate: GGMLType = GGMLType.Q4_K,
    up: GGMLType | None = None,
    down: GGMLType | None = None,
    *,
    hidden: int = HIDDEN,
    ff: int = FF,
) -> Experts:
    """A layer of six experts; up and down have the type of gate unless another is given."""
    return Experts(
        random_matrix(gate, ff, hidden, experts=EXPERTS, seed=1),
        random_matrix(up or gate, ff, hidden, experts=EXPERTS, seed=2),
        random_matrix(down or gate, hidden, ff, experts=EXPERTS, seed=3),
    )


def routing(ids: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """ids (tokens, k) int32 and weights that differ everywhere."""
    table = torch.tensor(ids, dtype=torch.int32)
    weights = torch.linspace(0.1, 0.9, table.numel()).view(table.shape)
    return table, weights.contiguous()


def assert_as_reference(experts: Experts, ids: list[list[int]], mode: Activations) -> None:
    table, weights = routing(ids)
    x = activations(len(ids), experts.gate.cols) * 0.1
    args = (x, experts.gate, experts.up, experts.down, table, weights, mode)
    counts, expected_counts = torch.ones(EXPERTS).int(), torch.ones(EXPERTS).int()
    actual = ops.expert_ffn(*args, counts=counts)
    expected = reference.expert_ffn(*args, counts=expected_counts)
    assert torch.equal(counts, expected_counts)
    most = float(expected.abs().max())
    assert most > 0
    assert float((actual - expected).abs().max()) <= BOUNDS[mode] * most


ROUTINGS = {
    "one token": [[4, 1]],
    "all on one expert": [[2, 2]] * 70,
    "imbalance": [[0, 1 + t % 5] for t in range(67)],
    "duplicates": [[3, 3, 3], [1, 3, 1]],
    "skipped": [[-1, 2], [5, -1], [0, 1]],
    "a token without experts": [[1, 2], [-1, -1], [3, 0]],
    "last expert": [[5], [5]],
    "more experts than tokens": [[0, 1, 2, 3, 4, 5]],
}


@each_mode
@pytest.mark.parametrize("ids", ROUTINGS.values(), ids=ROUTINGS.keys())
def test_expert_ffn_routes_as_the_reference(
    ids: list[list[int]], mode: Activations, variant: str
) -> None:
    assert_as_reference(layer(), ids, mode)


@each_mode
@pytest.mark.parametrize("type", KERNEL_TYPES, ids=lambda type: type.name)
def test_expert_ffn_computes_every_type(type: GGMLType, mode: Activations, variant: str) -> None:
    assert_as_reference(layer(type), [[0, 3], [5, 1], [3, 2]], mode)


MIXES = [
    (GGMLType.Q4_K, GGMLType.Q6_K, GGMLType.Q8_0),
    (GGMLType.F32, GGMLType.Q8_0, GGMLType.F16),
    (GGMLType.IQ2_XXS, GGMLType.BF16, GGMLType.Q2_K),
    (GGMLType.Q8_0, GGMLType.F32, GGMLType.F32),
]


@each_mode
@pytest.mark.parametrize("types", MIXES, ids=lambda types: "-".join(t.name for t in types))
def test_expert_ffn_mixes_types(
    types: tuple[GGMLType, GGMLType, GGMLType], mode: Activations, variant: str
) -> None:
    assert_as_reference(layer(*types), [[0, 3], [5, 1], [3, 2]], mode)


@each_mode
@pytest.mark.parametrize(("hidden", "ff"), [(32, 96), (96, 32), (64, 160)])
def test_expert_ffn_takes_odd_sizes(hidden: int, ff: int, mode: Activations, variant: str) -> None:
    assert_as_reference(layer(GGMLType.Q8_0, hidden=hidden, ff=ff), [[1, 4], [4, 0]], mode)


def test_expert_ffn_takes_widths_that_are_no_multiple_of_eight(variant: str) -> None:
    experts = layer(GGMLType.F32, hidden=21, ff=13)
    assert_as_reference(experts, [[1, 4], [4, 0]], Activations.F32)


@each_mode
def test_token_without_experts_gets_zeros(mode: Activations, variant: str) -> None:
    experts, (ids, weights) = layer(), routing([[-1, -1], [0, 1]])
    x = activations(2, HIDDEN)
    out = ops.expert_ffn(x, experts.gate, experts.up, experts.down, ids, weights, mode)
    assert torch.equal(out[0], torch.zeros(HIDDEN))
    assert bool(out[1].any())


def test_tokens_of_each_expert_are_counted() -> None:
    experts, (ids, weights) = layer(), routing([[1, 4], [4, -1], [4, 1]])
    counts = torch.tensor([7, 0, 0, 0, 0, 0], dtype=torch.int32)
    x = activations(3, HIDDEN)
    ops.expert_ffn(x, experts.gate, experts.up, experts.down, ids, weights, counts=counts)
    assert counts.tolist() == [7, 2, 0, 0, 3, 0]


@each_mode
@pytest.mark.parametrize("shape", [(0, 2), (3, 0)])
def test_nothing_to_compute_gives_zeros(
    shape: tuple[int, int], mode: Activations, variant: str
) -> None:
    experts, x = layer(), activations(shape[0], HIDDEN)
    ids, weights = torch.empty(shape, dtype=torch.int32), torch.empty(shape)
    out = ops.expert_ffn(x, experts.gate, experts.up, experts.down, ids, weights, mode)
    assert torch.equal(out, torch.zeros(shape[0], HIDDEN))


@each_mode
def test_token_that_is_not_finite_spoils_no_other(mode: Activations, variant: str) -> None:
    experts, (ids, weights) = layer(), routing([[0, 1], [0, 1], [1, 0]])
    x = activations(3, HIDDEN)
    clean = ops.expert_ffn(x, experts.gate, experts.up, experts.down, ids, weights, mode)
    x[1, 3] = float("nan")
    spoilt = ops.expert_ffn(x, experts.gate, experts.up, experts.down, ids, weights, mode)
    assert bool(spoilt[1].isnan().all())
    assert torch.equal(spoilt[::2], clean[::2])


def test_every_quantised_type_fits_the_sizes_used_here() -> None:
    assert all(HIDDEN % LAYOUTS[type].elements == 0 for type in KERNEL_TYPES)
