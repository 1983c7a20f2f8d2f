"""Each kernel test runs with two threads and leaves variant and threads as it found them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.kernels import ops


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Enough to share work, few enough for a busy machine."""
    threads, variant = ops.num_threads(), ops.variant()
    if threads != 2:
        ops.set_num_threads(2)
    yield
    if ops.num_threads() != threads:
        ops.set_num_threads(threads)
    ops.set_variant(variant)


@pytest.fixture(params=ops.variants())
def variant(request: pytest.FixtureRequest) -> str:
    """Runs the test once for each instruction-set variant of this machine."""
    name: str = request.param
    ops.set_variant(name)
    return name
