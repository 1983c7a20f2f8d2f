"""Opens a model file and makes an engine of it.

`check_model` looks at the header only and imports no torch; `load_engine` maps the weights, brings
the file into the page cache with a progress report, and builds the engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.config import EngineConfig, LoadProgress, resolve
from engine.errors import EngineError, ModelFileError, TraceError
from engine.gguf.census import Part, part_of
from engine.gguf.reader import SPLIT_NAME, GGUFModel, open_gguf
from engine.gguf.shape import ModelShape, model_shape
from engine.gguf.shape.qwen4exp import NGRAM_TABLE
from engine.kv.layout import state_layout

if TYPE_CHECKING:
    from engine.experts.trace import TraceWriter
    from engine.model.registry import Model
    from engine.step import ModelEngine

PAGE_BYTES = 4096
CHUNK_BYTES = 32 << 20  # read between two progress reports
Progress = Callable[[LoadProgress], None]


def check_model(config: EngineConfig) -> None:
    """Raise ModelFileError if the engine could not run this file."""
    from engine.kernels.support import check_type

    with open_gguf(config.model, companions=config.companions) as model:
        _shape(model, config)
        for tensor in model.tensors.values():
            check_type(config.model, tensor.name, tensor.type)


def load_engine(config: EngineConfig, progress: Progress | None = None) -> ModelEngine:
    """Load a model. `progress` is called as bytes come in.

    Raises ModelFileError for a file that cannot be run and CapacityError for memory that is not
    there. Weights stay where the file is mapped; nothing is copied.
    """
    file = open_gguf(config.model, companions=config.companions)
    try:
        return _build(file, config, progress)
    except EngineError:
        file.close()
        raise


def _shape(file: GGUFModel, config: EngineConfig) -> ModelShape:
    """The model's shape with what the configuration changes of it."""
    shape = model_shape(file)
    _check_companions(file, shape, config)
    if not config.experts_per_token:
        return shape
    if not 1 <= config.experts_per_token <= shape.experts:
        raise ModelFileError(
            file.path, f"{config.experts_per_token} experts per token, it has {shape.experts}"
        )
    return replace(shape, experts_used=config.experts_per_token)


def _check_companions(file: GGUFModel, shape: ModelShape, config: EngineConfig) -> None:
    """A file that was named for a part must be where that part comes from."""
    for path, part, key in (
        (config.ngram_table, "n-gram table", NGRAM_TABLE),
        (config.draft_model, "draft block", f"blk.{shape.layers}.nextn.eh_proj.weight"),
    ):
        holder = file.location(key)[0] if key in file.tensors else None
        if path is not None and (holder is None or not _same_set(path, holder)):
            reason = "it holds none" if holder is None else "the model has its own"
            raise ModelFileError(path, f"not where the model's {part} comes from: {reason}")


def _same_set(path: Path, other: Path) -> bool:
    """Whether two files are one, or of one split set."""
    split, other_split = SPLIT_NAME.match(path.name), SPLIT_NAME.match(other.name)
    if split is None or other_split is None:
        return path == other
    return path.parent == other.parent and split["stem"] == other_split["stem"]


def _build(file: GGUFModel, config: EngineConfig, progress: Progress | None) -> ModelEngine:
    shape = _shape(file, config)
    layout = state_layout(shape)
    resolved = resolve(config, layout, context=shape.context, free_bytes=_available_bytes())

    import torch

    from engine.kernels import ops
    from engine.kernels.ops import Activations
    from engine.kv.memory import SequenceMemory
    from engine.model.registry import build_model
    from engine.step import LoadedModel, ModelEngine

    ops.keep_freed_memory()
    ops.set_num_threads(resolved.threads)
    # What is left to torch is moving a few rows; its own threads would spin on the cores of ours.
    torch.set_num_threads(1)
    memory = SequenceMemory(layout, resolved)
    model = build_model(shape, file, Activations(resolved.activations))
    try:
        _bring_in(file, progress)
        trace = _trace(config, model, shape.layers)
    except BaseException:
        model.close()
        raise
    loaded = LoadedModel(
        file=file,
        shape=shape,
        model_experts_used=model_shape(file).experts_used,
        model=model,
        layout=layout,
        memory=memory,
        weight_bytes=sum(tensor.num_bytes for tensor in file.tensors.values()),
        fixed_bytes_per_step=_fixed_bytes(file, shape),
    )
    return ModelEngine(loaded, resolved, trace)


def _trace(config: EngineConfig, model: Model, layers: int) -> TraceWriter | None:
    """Where steps are traced, if they are to be; a draft block is in none of them."""
    from engine.experts.trace import TraceWriter

    if config.expert_trace is None:
        return None
    if model.experts is None:
        raise TraceError(config.expert_trace, "the model has no routed experts to trace")
    shape = model.experts.shape
    return TraceWriter(
        config.expert_trace, replace(shape, expert_bytes=shape.expert_bytes[:layers])
    )


def _fixed_bytes(file: GGUFModel, shape: ModelShape) -> int:
    """Weights that every step reads whole: no routed experts, no table rows, no draft block."""
    rows = {Part.ROUTED_EXPERTS, Part.NGRAM_TABLE}
    if not shape.tied_output:
        rows.add(Part.TOKEN_EMBEDDING)
    draft = f"blk.{shape.layers}."
    return sum(
        tensor.num_bytes
        for tensor in file.tensors.values()
        if part_of(tensor) not in rows and not tensor.name.startswith(draft)
    )


def _bring_in(file: GGUFModel, progress: Progress | None) -> None:
    """Touch a byte of every page, in the order of the file, so that the first step is not slow.

    The n-gram table stays out: steps read the rows they need from the file itself.
    """
    everything = sorted(file.tensors.values(), key=lambda t: (t.file_index, t.offset))
    tensors = [tensor for tensor in everything if part_of(tensor) is not Part.NGRAM_TABLE]
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
