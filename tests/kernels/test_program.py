"""Programs: recorded calls give what calling again gives, in memory that stays."""

from __future__ import annotations

import threading

import pytest
import torch

from engine.errors import ShapeError
from engine.gguf.types import GGMLType
from engine.kernels import ops
from engine.kernels.ops import Program, Scratch
from helpers.weights import activations, random_matrix

W = random_matrix(GGMLType.Q8_0, 64, 64)


def two_layers(x: torch.Tensor) -> torch.Tensor:
    return ops.linear(ops.linear(x, W), W)


def recorded(x: torch.Tensor, scratch: Scratch) -> tuple[Program, torch.Tensor]:
    program = Program(scratch)
    with program.recording():
        y = two_layers(x)
    return program, y


def test_a_program_computes_with_what_its_memory_holds_now(variant: str) -> None:
    x = activations(3, 64)
    program, y = recorded(x, Scratch())
    assert torch.equal(y, two_layers(x))
    for seed in range(2, 5):
        x.copy_(activations(3, 64, seed=seed))
        program()
        assert torch.equal(y, two_layers(x))


def test_programs_of_one_scratch_take_turns() -> None:
    """The second one's results lie where the first one's lay; each is right when it has run."""
    scratch, x, z = Scratch(), activations(3, 64), activations(5, 64, seed=2)
    first, y = recorded(x, scratch)
    second, w = recorded(z, scratch)
    for _ in range(2):
        first()
        assert torch.equal(y, two_layers(x))
        second()
        assert torch.equal(w, two_layers(z))


def test_results_stay_when_the_scratch_grows() -> None:
    scratch, x, many = Scratch(), activations(3, 64), activations(20_000, 64)
    program, y = recorded(x, scratch)
    large, _ = recorded(many, scratch)  # more than the scratch had
    program()
    assert torch.equal(y, two_layers(x))
    large()
    program()
    assert torch.equal(y, two_layers(x))


def test_nothing_is_recorded_after_the_block_nor_of_a_call_that_is_refused() -> None:
    x = activations(3, 64)
    program = Program(Scratch())
    with program.recording():
        y = ops.linear(x, W)
        with pytest.raises(ShapeError):
            ops.linear(x[:, :32].contiguous(), W)
    before = y.clone()
    z = ops.linear(activations(3, 64, seed=2), W)
    kept = z.clone()
    y.zero_()
    program()
    assert torch.equal(y, before)
    assert torch.equal(z, kept)


def test_other_threads_are_not_recorded() -> None:
    x, others = activations(3, 64), []
    program = Program(Scratch())
    with program.recording():
        y = ops.linear(x, W)
        thread = threading.Thread(target=lambda: others.append(ops.linear(x, W)))
        thread.start()
        thread.join()
    others[0].zero_()
    program()
    assert torch.equal(y, ops.linear(x, W))
    assert not others[0].any()


def test_programs_are_not_recorded_inside_each_other() -> None:
    with (
        Program(Scratch()).recording(),
        pytest.raises(AssertionError, match="inside"),
        Program(Scratch()).recording(),
    ):
        pass
