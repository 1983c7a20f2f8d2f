"""Opening a model file and making an engine of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from engine.config import EngineConfig, LoadProgress
from engine.errors import CapacityError, EngineError, ModelFileError
from engine.gguf.reader import open_gguf
from engine.gguf.shape.qwen4exp import NGRAM_TABLE
from engine.gguf.types import GGMLType
from engine.gguf.writer import write_gguf
from engine.load import CHUNK_BYTES, check_model, load_engine
from engine.local import all_logits
from helpers.engines import opened
from helpers.f32_copy import write_f32_copy
from helpers.qwen4exp_vectors import quantised
from helpers.tiny_gguf import (
    TinyModel,
    tensor_source,
    tiny_metadata,
    tiny_weights,
    write_model,
    write_tiny_model,
)

TINY = TinyModel(architecture="llama")
BIG = TinyModel(architecture="llama", hidden=512, ff=8192, head_dim=64)  # 110 MB
BIG_BYTES = 100 << 20


def model_bytes(path: Path) -> int:
    with open_gguf(path) as model:
        return sum(tensor.num_bytes for tensor in model.tensors.values())


def test_progress_grows_to_the_total(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf")
    seen: list[LoadProgress] = []
    load_engine(EngineConfig(model=path, kv_tokens=64, threads=2), seen.append).close()
    done = [progress.done_bytes for progress in seen]
    assert done == sorted(done)
    assert {progress.total_bytes for progress in seen} == {model_bytes(path)} == {done[-1]}
    with open_gguf(path) as model:
        assert {progress.what for progress in seen} == set(model.tensors)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("big") / "m.gguf", BIG)


def test_large_tensor_is_reported_in_pieces(big: Path) -> None:
    seen: list[int] = []
    config = EngineConfig(model=big, kv_tokens=64, threads=2)
    load_engine(config, lambda progress: seen.append(progress.done_bytes)).close()
    assert max(np.diff(seen)) <= CHUNK_BYTES


def test_weights_are_not_copied_to_private_memory(big: Path) -> None:
    """Memory that is no page cache grows by far less than the file while it is loaded and used."""
    assert model_bytes(big) > BIG_BYTES

    def private_bytes() -> int:
        memory = psutil.Process().memory_info()
        return int(memory.rss - memory.shared)

    before = private_bytes()
    with opened(big, kv_tokens=64) as engine:
        all_logits(engine, [1, 2, 3])
        assert private_bytes() - before < BIG_BYTES // 4


def stopped(_: LoadProgress) -> None:
    raise EngineError("stopped")


def test_load_can_be_stopped_by_its_progress_report(tmp_path: Path) -> None:
    config = EngineConfig(model=write_model(tmp_path / "m.gguf", TINY), kv_tokens=64, threads=2)
    with pytest.raises(EngineError, match="stopped"):
        load_engine(config, stopped)


def test_absurd_cache_is_refused_by_its_flag(tmp_path: Path) -> None:
    config = EngineConfig(model=write_model(tmp_path / "m.gguf", TINY), kv_tokens=10**15)
    with pytest.raises(CapacityError, match=r"MiB more than is free; a smaller --kv-tokens"):
        load_engine(config)


def test_facts_say_what_was_loaded(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf")
    with opened(path, kv_tokens=100, page_tokens=16, sequences_max=3) as engine:
        facts = engine.facts
        assert (facts.model_name, facts.architecture) == ("tiny qwen3moe", "qwen3moe")
        assert (facts.vocab_size, facts.context_tokens_max) == (267, 112)
        assert (facts.page_tokens, facts.num_pages, facts.sequences_max) == (16, 7, 3)
        assert facts.weight_bytes == model_bytes(path)
        assert facts.kv_bytes_per_token == 2 * 2 * 2 * 16 * 4


def with_type(path: Path, name: str, type: GGMLType) -> Path:
    sources = [tensor_source(key, values, TINY) for key, values in tiny_weights(TINY).items()]
    changed = [replace(source, type=type) if source.name == name else source for source in sources]
    write_gguf(path, tiny_metadata(TINY), changed)
    return path


def with_tensor(path: Path, name: str, length: int) -> Path:
    weights = tiny_weights(TINY) | {name: np.ones(length, np.float32)}
    sources = [tensor_source(key, values, TINY) for key, values in weights.items()]
    write_gguf(path, tiny_metadata(TINY), sources)
    return path


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda path: with_type(path, "blk.1.ffn_up.weight", GGMLType.I32),
            "tensor blk.1.ffn_up.weight is of type I32, which has no kernels",
        ),
        (
            lambda path: with_tensor(path, "blk.0.attn_q.bias", 64),
            "tensor blk.0.attn_q.bias has no place in architecture llama",
        ),
        (
            lambda path: with_tensor(path, "rope_freqs.weight", 1),
            r"tensor rope_freqs.weight is \[1\], \[8\] expected",
        ),
    ],
    ids=["type", "bias", "rope_freqs"],
)
@pytest.mark.parametrize("open_it", [check_model, load_engine])
def test_file_that_would_be_run_wrongly_is_refused_before_and_while_loading(
    make: Callable[[Path], Path],
    reason: str,
    open_it: Callable[[EngineConfig], object],
    tmp_path: Path,
) -> None:
    with pytest.raises(ModelFileError, match=reason):
        open_it(EngineConfig(model=make(tmp_path / "m.gguf")))


def test_checking_a_model_imports_no_torch(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", TINY)
    code = (
        "import sys; from pathlib import Path; from engine.load import check_model;"
        "from engine.config import EngineConfig;"
        f"check_model(EngineConfig(model=Path({str(path)!r}))); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_engine_works_after_another_was_closed(tmp_path: Path) -> None:
    quantised = write_model(tmp_path / "q.gguf", replace(TINY, type=GGMLType.Q8_0))
    copy = write_f32_copy(quantised, tmp_path / "f32.gguf")
    with opened(quantised) as first:
        expected = all_logits(first, [1, 2, 3])
    with opened(copy) as second:
        assert np.abs(all_logits(second, [1, 2, 3]) - expected).max() < 1e-5


def test_ngram_table_is_not_read_when_a_model_is_loaded() -> None:
    seen: list[LoadProgress] = []
    config = EngineConfig(model=quantised("Q2_0"), kv_tokens=64, threads=2)
    load_engine(config, seen.append).close()
    with open_gguf(quantised("Q2_0")) as model:
        assert {each.what for each in seen} == set(model.tensors) - {NGRAM_TABLE}
        table = model.tensors[NGRAM_TABLE].num_bytes
        assert seen[-1].done_bytes == sum(t.num_bytes for t in model.tensors.values()) - table


@pytest.mark.parametrize("count", [17, 1000])
def test_more_experts_per_token_than_there_are_is_refused(count: int) -> None:
    config = EngineConfig(model=quantised("Q2_0"), experts_per_token=count)
    for open_it in (check_model, load_engine):
        with pytest.raises(ModelFileError, match=f"{count} experts per token, it has 16"):
            open_it(config)


def test_experts_per_token_of_a_dense_model_is_refused(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", replace(TINY, architecture="llama"))
    with pytest.raises(ModelFileError, match="1 experts per token, it has 0"):
        check_model(EngineConfig(model=path, experts_per_token=1))
