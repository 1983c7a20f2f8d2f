"""Writes a GGUF model of any size, filled with random but well-behaved quantised weights.

    python bench/models.py qwen4exp OUT.gguf [--preset released|tiny] [--layers N] [--experts N] ...
        [--types experts=IQ2_XXS,trunk=Q8_0,...] [--fused] [--mtp] [--ngram-file F]
        [--router-skew X] [--seed S] [--check]

For benchmarks of models that are too large to ship, and for tests that need other sizes than a real
model has. A family is a module of `model_files` that plans metadata and tensors; writing is here.
The same arguments give the same bytes. Files appear under their names when all are complete.
"""

from __future__ import annotations

import argparse
import errno
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("", "tests")]

from bench.model_files import qwen4exp, qwen4exp_tensors
from bench.model_files.plan import PlannedTensor, Role, parse_types, sources
from bench.model_files.router import busiest_quarter_share
from engine.gguf.reader import open_gguf
from engine.gguf.types import GGMLType
from engine.gguf.writer import TensorSource, write_gguf

EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130  # as shells report SIGINT
SKEW_MOST = 4.0
CHECK_INPUTS = 20_000
ROUTER = "ffn_gate_inp.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a family offers. Its sizes are a dataclass of its own; each field becomes a flag."""

    presets: Mapping[str, Any]
    metadata: Callable[..., dict[str, object]]  # (sizes, *, mtp)
    tensors: Callable[..., Iterator[PlannedTensor]]  # (sizes, *, mtp, fused, skew)


FAMILIES = {
    qwen4exp.NAME: Family(
        presets=qwen4exp.PRESETS, metadata=qwen4exp.metadata, tensors=qwen4exp_tensors.tensors
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model to write: its family and sizes, and the choices that are not sizes."""

    sizes: Any
    family: str = qwen4exp.NAME
    types: Mapping[Role, GGMLType]
    fused: bool = False  # gate and up of the experts in one tensor
    mtp: bool = False  # a further block that predicts the token after the next
    skew: float = 0.0  # exponent of the popularity of experts, see `router.py`
    seed: int = 0
    ngram_file: Path | None = None  # the n-gram table goes there


def write_model(path: Path, model: Model) -> list[Path]:
    """Write the model; returns its files.

    Raises ValueError for sizes that cannot be, before anything is written, and OSError.
    """
    family = FAMILIES[model.family]
    metadata = family.metadata(model.sizes, mtp=model.mtp)
    planned = list(family.tensors(model.sizes, mtp=model.mtp, fused=model.fused, skew=model.skew))
    if model.ngram_file is None:
        return _write({path: (metadata, sources(planned, model.types, model.seed))})
    if model.ngram_file.resolve() == path.resolve():
        raise ValueError(f"{path} cannot hold both the model and its n-gram table")
    apart = [tensor for tensor in planned if tensor.role is Role.NGRAM]
    rest = [tensor for tensor in planned if tensor.role is not Role.NGRAM]
    names = {key: metadata[key] for key in ("general.architecture", "general.name")}
    return _write(
        {
            path: (metadata, sources(rest, model.types, model.seed)),
            model.ngram_file: (names, sources(apart, model.types, model.seed)),
        }
    )


def router_shares(path: Path) -> dict[int, float]:
    """Layer -> share of all choices, 0-1, of its busiest quarter of experts on random inputs."""
    with open_gguf(path) as model:
        used = model.metadata.integer(f"{model.architecture}.expert_used_count")
        shares = {}
        for name, tensor in model.tensors.items():
            if name.endswith(ROUTER):
                rows = model.data(name).view(np.float32).reshape(tensor.shape[::-1])
                layer = int(name.split(".")[1])
                shares[layer] = busiest_quarter_share(rows, used=used, num_inputs=CHECK_INPUTS)
        return shares


def _write(
    contents: Mapping[Path, tuple[Mapping[str, object], Sequence[TensorSource]]],
) -> list[Path]:
    """Write metadata and tensors of each file: all files, or none. OSError names the file."""
    with ExitStack() as files:
        partials = {path: files.enter_context(_complete(path)) for path in contents}
        for path, (metadata, tensors) in contents.items():
            with _named(path):
                write_gguf(partials[path], metadata, tensors)
    return list(contents)


@contextmanager
def _complete(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` at the end and vanishes after any error.

    What cannot become `path` is refused at once, not after gigabytes.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    partial = path.with_name(f"{path.name}.partial")
    with _named(path):
        partial.touch()
    try:
        yield partial
        with _named(path):
            os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """OSErrors from within name `path`: a full disk names no file, others the partial one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    start = time.perf_counter()
    try:
        files = write_model(args.path, _model(args))
    except ValueError as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    seconds = time.perf_counter() - start
    total = sum(file.stat().st_size for file in files)
    print(f"{', '.join(map(str, files))}: {total:,} bytes in {seconds:.1f} s")
    if args.check:
        for layer, share in router_shares(args.path).items():
            print(f"layer {layer}: the busiest quarter of experts gets {share:.1%} of the choices")
    return 0


def _refuse(reason: str) -> int:
    sys.stderr.write(f"models: error: {reason}\n")
    return EXIT_REFUSED


def build_parser() -> argparse.ArgumentParser:
    """One subcommand per family, one flag per size."""
    parser = argparse.ArgumentParser(prog="models", description="Write a random model as GGUF.")
    subparsers = parser.add_subparsers(dest="family", required=True, metavar="FAMILY")
    for name, family in FAMILIES.items():
        command = subparsers.add_parser(name, help=f"a model of family {name}")
        command.add_argument("path", type=Path, metavar="OUT.gguf")
        command.add_argument("--preset", choices=tuple(family.presets), default="released")
        for size in fields(next(iter(family.presets.values()))):
            flag = f"--{size.name.replace('_', '-')}"
            command.add_argument(flag, type=int, metavar="N", help=size.metadata["help"])
        _add_choices(command)
    return parser


def _add_choices(command: argparse.ArgumentParser) -> None:
    roles = ", ".join(role.value for role in Role if role is not Role.SMALL)
    command.add_argument("--types", type=_types, default="", help=f"ROLE=TYPE,...; roles: {roles}")
    command.add_argument("--fused", action="store_true", help="write ffn_gate_up_exps")
    command.add_argument("--mtp", action="store_true", help="add a block that predicts further")
    command.add_argument("--ngram-file", type=Path, metavar="F", help="a file for the n-gram table")
    command.add_argument("--router-skew", type=_skew, default=0.0, metavar="X", help="0: even")
    command.add_argument("--seed", type=_seed, default=0, metavar="S")
    command.add_argument("--check", action="store_true", help="measure how routers choose")


def _model(args: argparse.Namespace) -> Model:
    preset = FAMILIES[args.family].presets[args.preset]
    given = {size.name: getattr(args, size.name) for size in fields(preset)}
    sizes = replace(preset, **{name: value for name, value in given.items() if value is not None})
    return Model(
        family=args.family,
        sizes=sizes,
        types=args.types,
        fused=args.fused,
        mtp=args.mtp,
        skew=args.router_skew,
        seed=args.seed,
        ngram_file=args.ngram_file,
    )


def _types(text: str) -> dict[Role, GGMLType]:
    try:
        return parse_types(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _skew(text: str) -> float:
    skew = float(text)
    if not (math.isfinite(skew) and 0 <= skew <= SKEW_MOST):
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to {SKEW_MOST:g}")
    return skew


def _seed(text: str) -> int:
    seed = int(text)
    if seed < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return seed


if __name__ == "__main__":
    sys.exit(main())
