"""bench/models.py: what it writes is what was asked for, and behaves when it is run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.model_files.blocks import FLOATS, POOL_BYTES, TYPES, RandomBlocks
from bench.model_files.ngram import head_offsets, head_sizes, multipliers
from bench.model_files.plan import FALLBACKS, Role, parse_types
from bench.model_files.qwen4exp import Sizes, metadata
from bench.model_files.qwen4exp_tensors import tensors
from bench.model_files.router import busiest_quarter_share, router_rows
from bench.models import main
from engine.gguf.census import Part, census
from engine.gguf.quants import dequantize
from engine.gguf.reader import open_gguf
from engine.gguf.types import LAYOUTS, GGMLType
from engine.text.load import load_text
from helpers.qwen4exp_oracle import Oracle

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "tests/golden/vectors/qwen4exp/tiny-Q2_0.gguf"
SMALL = ("--preset", "tiny", "--layers", "4", "--vocab", "300")
OTHER = (
    *("--hidden", "96", "--heads", "6", "--kv-heads", "3", "--head-dim", "32", "--rope-dims", "16"),
    *("--experts", "12", "--experts-used", "5", "--ff", "48", "--shared-ff", "80", "--low-rank"),
    *("24", "--key-heads", "3", "--value-heads", "6", "--state-dim", "16", "--layers", "5"),
    *("--index-heads", "2", "--index-dim", "24", "--index-budget", "8", "--full-interval", "2"),
    *("--streams", "3", "--ngram-layer", "2", "--ngram-heads", "2", "--ngram-dim", "24"),
)
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a tiny model with these flags besides."""

    def run(*flags: str, name: str = "m.gguf") -> Path:
        path = tmp_path / name
        assert main(["qwen4exp", str(path), *SMALL, *flags]) == 0
        return path

    return run


def contents(path: Path) -> dict[str, bytes]:
    with open_gguf(path) as model:
        return {name: model.data(name).tobytes() for name in model.tensors}


def plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


def logits(path: Path, num_tokens: int = 48) -> tuple[NDArray[np.float64], Oracle]:
    with open_gguf(path) as model:
        oracle = Oracle(model)
        tokens = np.random.default_rng(5).integers(0, 256, num_tokens)
        return oracle.forward(tokens), oracle


def test_tiny_preset_is_shaped_like_the_reference_file(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    assert main(["qwen4exp", str(path), "--preset", "tiny"]) == 0
    with open_gguf(path) as ours, open_gguf(REFERENCE) as theirs:
        shapes = [{n: t.shape for n, t in m.tensors.items()} for m in (ours, theirs)]
        assert shapes[0] == shapes[1]
        for key, value in theirs.metadata.items():
            if key.startswith("qwen4exp.") and key != "qwen4exp.ple.eos_token_id":
                assert plain(ours.metadata[key]) == plain(value), key
                assert type(ours.metadata[key]) is type(value), key


def test_tensors_are_named_once_and_typed_by_role() -> None:
    planned = list(tensors(Sizes(), mtp=True, fused=True, skew=0))
    assert len({tensor.name for tensor in planned}) == len(planned)
    assert {tensor.role for tensor in planned} == set(Role)


def test_released_preset_has_the_tensors_of_the_specification() -> None:
    planned = list(tensors(Sizes(layers=48), mtp=False, fused=False, skew=0))
    shapes = {tensor.name: tensor.shape for tensor in planned}
    assert len(shapes) == len(planned) == 36 * 25 + 12 * 26 + 6 + 6
    assert shapes["blk.0.attn_qkv.weight"] == (2560, 10240)
    assert shapes["blk.3.attn_q.weight"] == (2560, 12288)
    assert shapes["blk.0.ffn_down_exps.weight"] == (640, 2560, 512)
    assert shapes["blk.1.ple_key.weight"] == (2560, 10240)
    assert shapes["blk.47.indexer.q_proj.weight"] == (2560, 512)
    numbers = sum(int(np.prod(shape)) for shape in shapes.values())
    assert numbers == pytest.approx(125.744e9 + 160 * 1e6, rel=1e-5)


def test_released_preset_has_the_metadata_of_the_specification() -> None:
    keys = metadata(Sizes(), mtp=True)
    assert keys["qwen4exp.block_count"] == 5
    assert keys["qwen4exp.nextn_predict_layers"] == 1
    assert keys["qwen4exp.ple.eos_token_id"] == keys["tokenizer.ggml.bos_token_id"] == 248044
    assert keys["tokenizer.ggml.eos_token_id"] == 248046
    assert keys["qwen4exp.ple.image_token_id"] == 248056


def test_table_of_the_released_size_has_the_published_constants() -> None:
    sizes = head_sizes(320_001_536, 16)
    assert (sizes[0], sizes[1], sizes[-1], sum(sizes)) == (20000003, 20000023, 20000171, 320001446)
    assert head_offsets(sizes)[:3] == [0, 20000003, 40000026]
    assert multipliers(248320, 3) == [23703573157769, 20109073645365, 8052911324071]


@pytest.mark.parametrize(("rows", "heads"), [(41, 5), (28, 5), (1000, 7), (4992, 8)])
def test_head_sizes_are_the_largest_primes_that_fit(rows: int, heads: int) -> None:
    primes = [n for n in range(2, rows + 100) if all(n % d for d in range(2, n))]
    runs = [primes[i : i + heads] for i in range(len(primes) - heads)]
    assert head_sizes(rows, heads) == [run for run in runs if sum(run) <= rows][-1]


def test_head_sizes_refuse_a_table_too_small() -> None:
    with pytest.raises(ValueError, match="27 rows are too few for 5 heads"):
        head_sizes(27, 5)


@pytest.mark.parametrize("type", TYPES)
def test_blocks_have_the_size_asked_for(type: GGMLType) -> None:
    layout = LAYOUTS[type]
    for rms in (0.02, 1.0):
        blocks = RandomBlocks(type, rms, 4096).pieces(np.random.default_rng(1))
        values = dequantize(np.concatenate(list(blocks)), type).astype(np.float64)
        assert values.size == 4096 * layout.elements
        coarse = 0.2 if type is GGMLType.NVFP4 else 0.05  # its scales end at 2^-10
        assert np.sqrt(np.square(values).mean()) == pytest.approx(rms, rel=coarse)
        assert abs(values.mean()) < 0.1 * rms


@pytest.mark.parametrize("type", TYPES)
def test_blocks_beyond_the_pool_keep_their_size_and_differ(type: GGMLType) -> None:
    layout = LAYOUTS[type]
    count = POOL_BYTES // layout.num_bytes + 4096
    *_, last = RandomBlocks(type, 0.1, count).pieces(np.random.default_rng(1))
    values = dequantize(last[:4096], type).astype(np.float64)
    assert np.isfinite(values).all()
    coarse = 0.2 if type in (*FLOATS, GGMLType.NVFP4) else 0.05
    assert np.sqrt(np.square(values).mean()) == pytest.approx(0.1, rel=coarse)
    rows = last[: len(last) // 32 * 32].reshape(-1, 32 * layout.num_bytes)
    assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.parametrize("flags", [(), OTHER, ("--types", "experts=Q2_0,trunk=IQ4_NL,head=F16")])
def test_model_runs_and_stays_of_order_one(flags: tuple[str, ...], write: Write) -> None:
    values, oracle = logits(write(*flags))
    assert np.isfinite(values).all()
    assert 0.5 < values.std(1).mean() < 4
    assert values.std(0).mean() > 0.5  # other positions, other logits
    for layer in range(oracle.layers):
        assert 0.5 < np.sqrt(np.square(oracle.trace[f"layer_out.{layer}"], dtype=float).mean()) < 5


def test_every_expert_is_reached(write: Write) -> None:
    _, oracle = logits(write(), num_tokens=96)
    for layer in range(oracle.layers):
        assert set(oracle.trace[f"experts.{layer}"].ravel()) == set(range(16))


def test_other_sizes_are_in_the_file(write: Write) -> None:
    with open_gguf(write(*OTHER)) as model:
        shapes = {name: tensor.shape for name, tensor in model.tensors.items()}
        assert plain(model.metadata["qwen4exp.attention.compress_ratios"]) == [0, 4, 0, 4, 0]
        assert plain(model.metadata["qwen4exp.rope.dimension_sections"]) == [3, 3, 2, 0]
    assert shapes["blk.1.attn_q.weight"] == (96, 2 * 6 * 32)
    assert shapes["blk.0.ssm_out.weight"] == (6 * 16, 96)
    assert shapes["blk.4.ffn_gate_exps.weight"] == (96, 48, 12)
    assert shapes["blk.2.ple_key.weight"] == (4 * 24, 3 * 96)


def test_census_counts_experts_and_table(write: Write) -> None:
    with open_gguf(write("--types", "experts=Q2_0,down=Q8_0")) as model:
        result = census(model)
    weights = 4 * 16 * 256 * 64
    assert result.bytes_by_part[Part.ROUTED_EXPERTS] == 2 * weights // 64 * 18 + weights // 32 * 34
    assert result.bytes_by_part[Part.NGRAM_TABLE] == 4992 * 18
    assert (result.experts, result.experts_used) == (16, 4)


def test_rows_too_short_for_a_type_fall_back(write: Write) -> None:
    flags = ("--types", "experts=IQ2_XXS,trunk=Q4_K,shared=Q6_K,ngram=Q2_0,conv=F16", "--ff", "40")
    with open_gguf(write(*flags)) as model:
        types = {name: tensor.type.name for name, tensor in model.tensors.items()}
    assert types["blk.0.ffn_gate_exps.weight"] == "IQ2_XXS"
    assert types["blk.0.ffn_down_exps.weight"] == "F16"  # rows of 40 fit no block
    assert types["blk.0.hc_attn_down.weight"] == "Q4_K"
    assert types["blk.0.hc_attn_up.weight"] == "Q5_0"
    assert types["blk.0.ffn_down_shexp.weight"] == "Q8_0"
    assert types["per_layer_token_embd.weight"] == "IQ4_NL"
    assert types["blk.1.ple_conv1d.weight"] == "F16"
    assert types["blk.0.ffn_gate_inp.weight"] == types["blk.0.ssm_alpha.weight"] == "F32"


def test_every_type_with_long_blocks_has_a_fallback() -> None:
    long = {type for type in TYPES if LAYOUTS[type].elements > 32}
    assert long == FALLBACKS.keys()
    assert all(LAYOUTS[type].elements == 32 for type in FALLBACKS.values())


def test_same_seed_gives_the_same_bytes(write: Write) -> None:
    first, again, other = (write("--seed", seed, name=f"{i}.gguf") for i, seed in enumerate("112"))
    assert first.read_bytes() == again.read_bytes()
    theirs = contents(other)
    assert all(theirs[name] != data for name, data in contents(first).items())


def test_more_layers_leave_the_first_as_they_are(write: Write) -> None:
    deeper = contents(write("--layers", "6", "--mtp", name="deep.gguf"))
    assert contents(write()).items() <= deeper.items()


@pytest.mark.parametrize("ff", ["64", "1088"])  # experts within a pool, and beyond it
def test_fused_experts_are_gate_then_up_of_each(ff: str, write: Write) -> None:
    flags = ("--ff", ff, "--types", "experts=F16")
    apart, fused = contents(write(*flags)), contents(write(*flags, "--fused", name="f.gguf"))
    size = 256 * int(ff) * 2
    both = fused.pop("blk.2.ffn_gate_up_exps.weight")
    gate, up = (apart[f"blk.2.ffn_{part}_exps.weight"] for part in ("gate", "up"))
    for e in (0, 7, 15):
        expert = slice(e * size, (e + 1) * size)
        assert both[2 * e * size : 2 * (e + 1) * size] == gate[expert] + up[expert]
    assert all(apart[name] == data for name, data in fused.items() if "gate_up" not in name)
    assert len(apart) == len(fused) + 1 + 4


def test_mtp_block_has_its_tensors(write: Write) -> None:
    with open_gguf(write("--mtp")) as model:
        shapes = {n: t.shape for n, t in model.tensors.items() if n.startswith("blk.4.")}
        assert model.metadata.integer("qwen4exp.block_count") == 5
        assert plain(model.metadata["qwen4exp.attention.compress_ratios"]) == [0, 0, 0, 4, 0]
        full = {n for n in model.tensors if n.startswith("blk.3.")}
    assert shapes["blk.4.nextn.eh_proj.weight"] == (512, 256)
    assert shapes["blk.4.nextn.hnorm.weight"] == (1024,)
    extra = {name for name in shapes if ".nextn." in name}
    assert len(extra) == 6
    assert {name.replace("blk.4", "blk.3") for name in shapes.keys() - extra} == full


def test_ngram_file_takes_the_table_alone(write: Write, tmp_path: Path) -> None:
    together = contents(write(name="whole.gguf"))
    table = tmp_path / "table.gguf"
    rest = contents(write("--ngram-file", str(table)))
    apart = contents(table)
    assert list(apart) == ["per_layer_token_embd.weight"]
    assert rest | apart == together
    with open_gguf(table) as model:
        assert model.architecture == "qwen4exp"


def test_tokenizer_of_the_file_works(write: Write) -> None:
    text = load_text(write())
    ids = text.tokenizer.encode("the é<|im_end|>", parse_special=True)
    assert text.tokenizer.decode(ids) == "the é<|im_end|>"
    assert ids[-1] in text.tokenizer.stop_ids
    assert text.tokenizer.vocab_size == 300
    assert text.chat_template is not None


def share(skew: float) -> float:
    random = np.random.default_rng(0)
    rows = router_rows(random, experts=128, used=4, inputs=256, skew=skew, rms=0.1)
    assert np.sqrt(np.square(rows).mean()) == pytest.approx(0.1, rel=1e-3)
    return busiest_quarter_share(rows, used=4, num_inputs=10_000)


def test_router_skew_follows_its_law() -> None:
    ranks = np.arange(1, 129)
    assert share(0.0) < 0.32
    for skew in (0.5, 1.0):
        law = ranks**-skew
        assert share(skew) == pytest.approx(law[:32].sum() / law.sum(), abs=0.06)


def test_check_prints_a_line_per_layer(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("--router-skew", "1", "--check")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == [f"layer {n}" for n in range(4)]
    assert all(float(line.split()[-4].rstrip("%")) > 35 for line in lines[1:])


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--experts-used", "17"), "17 of 16 experts used"),
        (("--layers", "1"), "n-gram layer 1 is no linear layer of 1"),
        (("--value-heads", "7"), "7 value heads do not share 2"),
        (("--hidden", "0"), "hidden is 0, not from 1 to 2147483647"),
        (("--vocab", "280"), "a vocabulary of 280"),
        (("--ngram-rows", "9"), "9 rows are too few for 8 heads"),
        (("--context", "5000000000"), "context is 5000000000, not from 1 to 2147483647"),
        (
            ("--value-heads", "65536", "--state-dim", "65536"),
            "linear layers of width 4294967296, beyond 2147483647",
        ),
    ],
)
def test_impossible_sizes_are_refused_with_one_line(
    flags: tuple[str, ...], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["qwen4exp", str(tmp_path / "m.gguf"), *SMALL, *flags]) == 2
    written = capsys.readouterr().err
    assert reason in written
    assert written.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_table_in_the_place_of_the_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    assert main(["qwen4exp", str(path), *SMALL, "--ngram-file", f"{tmp_path}/./m.gguf"]) == 2
    assert "cannot hold both the model and its n-gram table" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("--types", "expert=Q2_0", "unknown role 'expert'"),
        ("--types", "experts=Q9", "unknown type 'Q9' for experts"),
        ("--types", "small=Q8_0", "unknown role 'small'"),
        ("--router-skew", "nan", "not from 0 to 4"),
        ("--seed", "-1", "-1 is negative"),
    ],
)
def test_bad_flag_is_refused(
    flag: str, value: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["qwen4exp", "m.gguf", flag, value])
    assert stop.value.code == 2
    assert reason in capsys.readouterr().err


def test_down_is_of_the_experts_type_unless_given() -> None:
    names = {role.value: type.name for role, type in parse_types("experts=Q4_0").items()}
    assert names["down"] == "Q4_0"
    assert parse_types("experts=Q4_0,down=F16")[Role.DOWN] is GGMLType.F16


def test_disk_that_is_full_leaves_no_file(tmp_path: Path) -> None:
    old = tmp_path / "m.gguf"
    old.write_bytes(b"kept")
    command = f"ulimit -f 64; {sys.executable} bench/models.py qwen4exp {old} --preset tiny"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"models: error: {old}: File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]
    assert old.read_bytes() == b"kept"


def test_model_that_fails_leaves_no_table(tmp_path: Path) -> None:
    path, table = tmp_path / "m.gguf", tmp_path / "table.gguf"
    command = (  # blocks of 1024 bytes: enough for the table, too few for the model
        f"ulimit -f 300; {sys.executable} bench/models.py qwen4exp {path} --preset tiny "
        f"--ngram-file {table}"
    )
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"models: error: {path}: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_target_that_is_a_folder_is_named_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    path.mkdir()
    table = tmp_path / "table.gguf"
    assert main(["qwen4exp", str(path), *SMALL, "--ngram-file", str(table)]) == 2
    assert capsys.readouterr().err == f"models: error: {path}: Is a directory\n"
    assert list(tmp_path.iterdir()) == [path]


def test_folder_that_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "no" / "m.gguf"
    assert main(["qwen4exp", str(path), *SMALL]) == 2
    assert capsys.readouterr().err == f"models: error: {path}: No such file or directory\n"
