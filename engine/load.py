"""Opens a model file and makes an engine of it.

`check_model` looks at the header only and imports no torch; `load_engine` maps the weights, brings
the file into the page cache with a progress report, and builds the engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.config import EngineConfig, LoadProgress, resolve
from engine.errors import EngineError
from engine.gguf.reader import GGUFModel, open_gguf
from engine.gguf.shape import model_shape

if TYPE_CHECKING:
    from engine.step import ModelEngine

PAGE_BYTES = 4096
CHUNK_BYTES = 32 << 20  # read between two progress reports
Progress = Callable[[LoadProgress], None]


def check_model(path: Path) -> None:
    """Raise ModelFileError if the engine could not run this file."""
    from engine.kernels.support import check_type

    with open_gguf(path) as model:
        model_shape(model)
        for tensor in model.tensors.values():
            check_type(path, tensor.name, tensor.type)


def load_engine(config: EngineConfig, progress: Progress | None = None) -> ModelEngine:
    """Load a model. `progress` is called as bytes come in.

    Raises ModelFileError for a file that cannot be run and CapacityError for memory that is not
    there. Weights stay where the file is mapped; nothing is copied.
    """
    file = open_gguf(config.model)
    try:
        return _build(file, config, progress)
    except EngineError:
        file.close()
        raise


def _build(file: GGUFModel, config: EngineConfig, progress: Progress | None) -> ModelEngine:
    shape = model_shape(file)
    resolved = resolve(config, shape, free_bytes=_available_bytes())

    from engine.gguf.census import Part, census
    from engine.kernels import ops
    from engine.kernels.ops import Activations
    from engine.kv.pool import KVPool
    from engine.model.loader import Weights
    from engine.model.registry import BUILDERS
    from engine.step import LoadedModel, ModelEngine

    ops.set_num_threads(resolved.threads)
    activations = Activations(resolved.activations)
    model = BUILDERS[shape.architecture](shape, Weights(file), activations)
    counted = census(file)
    routed = counted.bytes_by_part.get(Part.ROUTED_EXPERTS, 0)
    embedding = 0 if shape.tied_output else counted.bytes_by_part.get(Part.TOKEN_EMBEDDING, 0)
    _bring_in(file, progress)
    loaded = LoadedModel(
        file=file,
        shape=shape,
        model=model,
        pool=KVPool(shape, resolved),
        weight_bytes=counted.total_bytes,
        fixed_bytes_per_step=counted.total_bytes - routed - embedding,
    )
    return ModelEngine(loaded, resolved)


def _bring_in(file: GGUFModel, progress: Progress | None) -> None:
    """Touch a byte of every page, in the order of the file, so that the first step is not slow."""
    tensors = sorted(file.tensors.values(), key=lambda t: (t.file_index, t.offset))
    total, done = sum(t.num_bytes for t in tensors), 0
    for tensor in tensors:
        data = file.data(tensor.name)
        for start in range(0, data.size, CHUNK_BYTES):
            part = data[start : start + CHUNK_BYTES]
            np.add.reduce(part[::PAGE_BYTES], dtype=np.uint64)
            done += part.size
            if progress is not None:
                progress(LoadProgress(done_bytes=done, total_bytes=total, what=tensor.name))


def _available_bytes() -> int:
    """Memory that could be used without swapping; the page cache counts as free."""
    try:
        with Path("/proc/meminfo").open() as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass  # not Linux: fall through to what sysconf says
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
