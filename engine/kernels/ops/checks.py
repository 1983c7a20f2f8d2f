"""What every op checks of its arguments before their addresses go to C++."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import ShapeError

HEAD_DIM_MAX = 1024


def checked_head(name: str, head_dim: int) -> None:
    if head_dim % 8 or not 0 < head_dim <= HEAD_DIM_MAX:
        raise ShapeError(f"{name}: heads of {head_dim}, a multiple of 8 to {HEAD_DIM_MAX} expected")


def is_half(pool: Tensor) -> bool:
    if pool.dtype not in (torch.float32, torch.float16):
        raise ShapeError(f"pool: {pool.dtype} is neither float32 nor float16")
    return pool.dtype is torch.float16


def shaped(
    name: str, x: Tensor, shape: tuple[int | None, ...], dtype: torch.dtype = torch.float32
) -> tuple[int, ...]:
    """The shape of x, which must agree with `shape` where that says a number."""
    actual = tuple(x.shape)
    if len(actual) != len(shape) or any(
        want is not None and want != have for want, have in zip(shape, actual, strict=True)
    ):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise ShapeError(f"{name}: shape {actual}, {wanted} expected")
    checked(name, x, dtype)
    return actual


def checked(name: str, x: Tensor, dtype: torch.dtype) -> None:
    if x.dtype is not dtype:
        raise ShapeError(f"{name}: {x.dtype}, {dtype} expected")
    if not x.is_contiguous():
        raise ShapeError(f"{name}: not contiguous")
    if not x.is_cpu:
        raise ShapeError(f"{name}: on {x.device}, the CPU expected")
