"""The tables of docs/performance.md as Markdown: kernels, engine, and llama.cpp on the same files.

    python bench/tables.py [--threads 2] [--rounds 3] [--dir build/bench] [--only PART,...]

Parts: `kernels` every block format, `engine` decode by batch, prefill and what a step spends
outside native ops, `compare` two mixes of formats beside llama.cpp, `types` every format beside
llama.cpp. The last two need `pip install -e .[bench]`. Models of the released widths of
Qwen3.8-Flash-Next are written to --dir when they are not there: 10 GB. What the tables are made of
goes to results.jsonl beside them, one JSON object per line.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench"), str(ROOT / "tests")]

import compare

from helpers.weights import QUANTISED_TYPES

Record = dict[str, Any]
MIXES = {
    "a": "experts=Q2_0,down=Q2_0,trunk=Q8_0",
    "b": "experts=IQ2_XXS,down=IQ4_NL,trunk=Q5_K",
}
DEEP_LAYERS = 12  # what a step does once is a smaller share of it
TYPE_MODEL = "--layers 3 --full-interval 3 --vocab 8192 --ngram-rows 100000 --experts 128".split()


@dataclass(frozen=True, slots=True)
class Bench:
    """Where models lie and how runs are repeated."""

    dir: Path
    threads: int
    rounds: int

    def record(self, record: Record) -> Record:
        """Keep one line of results."""
        with (self.dir / "results.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        return record

    def model(self, name: str, *flags: str) -> Path:
        """A random model with these flags of bench/models.py, written once."""
        path = self.dir / f"{name}.gguf"
        if not path.exists():
            command = [sys.executable, str(ROOT / "bench/models.py"), "qwen4exp", str(path)]
            print(f"writing {path}", file=sys.stderr)
            subprocess.run([*command, *flags], check=True, stdout=subprocess.DEVNULL)
        return path

    def mix(self, name: str, layers: int = 4) -> Path:
        """The model of a mix at the released widths."""
        flags = ["--layers", str(layers), "--types", MIXES[name], "--ngram-rows", "2000000"]
        return self.model(f"mix-{name}" if layers == 4 else f"mix-{name}-{layers}", *flags)

    def lines(self, *command: str) -> Iterator[Record]:
        """The JSON lines that a command prints."""
        done = subprocess.run(
            [sys.executable, *command],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT,
        )  # fmt: skip
        for line in done.stdout.splitlines():
            yield self.record(json.loads(line))

    def beside_llamacpp(self, model: Path, *flags: str) -> list[dict[str, compare.Figures]]:
        """Rounds of both sides in turns."""
        argv = [str(model), "--threads", str(self.threads), *flags]
        rounds = []
        for index in range(self.rounds):
            one = {side: compare.measured(side, argv, quiet=True) for side in compare.SIDES}
            self.record({"model": model.name, "flags": flags, "round": index, **one})
            rounds.append(one)
        return rounds


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    columns = list(head)
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def spread(values: list[float]) -> str:
    """min / median / max, or the only one."""
    ordered = sorted(values)
    if len(ordered) == 1:
        return f"{ordered[0]:.2f}"
    return f"{ordered[0]:.2f} / {ordered[len(ordered) // 2]:.2f} / {ordered[-1]:.2f}"


def kernels(bench: Bench) -> str:
    """Every block format: one token from memory, 128 tokens."""
    flags = ["--threads", str(bench.threads), "--only", "linear "]  # not "linears"
    found: dict[str, dict[str, Record]] = {}
    read = 0.0
    for line in bench.lines("bench/kernels.py", *flags):
        type, mode, tokens, _ = line["case"].split()
        found.setdefault(type, {})[f"{mode} {tokens}"] = line
        read = line["read_gigabytes_per_second"]
    rows = []
    for type in (type.name for type in QUANTISED_TYPES):
        cases = found[type]
        one, wide = cases["int8 1"], cases["int16 1"]
        rows.append([
            type, one["gigabytes_per_second"], wide["gigabytes_per_second"],
            f"{100 * wide['gigabytes_per_second'] / read:.0f} %",
            round(cases["int8 128"]["gigaops_per_second"]),
            round(cases["int16 128"]["gigaops_per_second"]),
        ])  # fmt: skip
    head = (
        "type", "1 token, 8 bits: GB/s", "12 bits: GB/s", "of reading", "128 tokens, 8 bits: GOP/s",
        "12 bits: GOP/s",
    )  # fmt: skip
    return f"Reading alone: {read:.1f} GB/s.\n\n{table(head, rows)}"


def engine(bench: Bench) -> str:
    """Decode by batch, prefill by length, and the share of a step outside native ops."""
    out = []
    for name in MIXES:
        model, common = str(bench.mix(name)), ("--threads", str(bench.threads), "--json")
        run = ("-m", "services.cli", "bench")
        decode = list(bench.lines(*run, "decode", model, "--activations", "int8", *common))
        alone = decode[0]["tokens_per_second"]
        rows = [
            [
                line["batch"], line["tokens_per_second"],
                f"{line['tokens_per_second'] / alone:.2f}",
                f"{line['bytes_per_token'] * line['tokens_per_second'] / 1e9:.1f}",
            ]
            for line in decode
        ]  # fmt: skip
        out.append(f"Mix {name}, decode:\n")
        out.append(table(("batch", "tokens/s", "of batch 1", "weights read, GB/s"), rows))
        prefill = bench.lines(*run, "prefill", model, "--activations", "int8", *common)
        rows = [[line["context"], line["tokens_per_second"]] for line in prefill]
        out.append(f"Mix {name}, prefill:\n\n{table(('tokens', 'tokens/s'), rows)}")
        out.append(outside_native(bench, name, 4))
    out.append(outside_native(bench, "b", DEEP_LAYERS))
    bench.mix("b", DEEP_LAYERS).unlink()
    return "\n".join(out)


def outside_native(bench: Bench, mix: str, layers: int) -> str:
    """A sentence on what a decode step of one sequence spends in Python and torch."""
    model = str(bench.mix(mix, layers))
    line = next(bench.lines("bench/overhead.py", model, "--threads", str(bench.threads)))
    return (
        f"Mix {mix}, {layers} layers, one sequence: a decode step takes {line['step_ms']:.1f} ms, "
        f"of which {100 * line['outside_native']:.1f} % outside native ops.\n"
    )


def against(bench: Bench) -> str:
    """Both mixes beside llama.cpp."""
    rows = []
    for name in MIXES:
        single = bench.beside_llamacpp(bench.mix(name), "--prompt", "512", "--tokens", "32")
        several = bench.beside_llamacpp(bench.mix(name), "--sequences", "8", "--tokens", "24")
        for what, rounds, figure in (
            ("prefill 512", single, "prefill_tokens_per_second"),
            ("decode, 1 sequence", single, "decode_tokens_per_second"),
            ("decode, 8 sequences", several, "decode_tokens_per_second"),
        ):
            sides = [spread([one[side][figure] for one in rounds]) for side in compare.SIDES]
            rows.append([name, what, *sides, f"**{spread(compare.each_ratio(rounds, figure))}**"])
    return table(("mix", "", "Lamina, tokens/s", "llama.cpp, tokens/s", "ratio"), rows)


def types(bench: Bench) -> str:
    """Every format in experts and trunk of a small model, beside llama.cpp."""
    rows = []
    for type in QUANTISED_TYPES:
        roles = ",".join(f"{role}={type.name}" for role in ("experts", "down", "trunk", "head"))
        model = bench.model(f"type-{type.name}", *TYPE_MODEL, "--types", roles)
        try:
            rounds = bench.beside_llamacpp(model, "--prompt", "128", "--tokens", "48")
        except subprocess.CalledProcessError as error:
            if error.cmd[-1] != "llama.cpp":
                raise
            rows.append([type.name, "llama.cpp refuses the file", ""])
        else:
            figures = ("decode_tokens_per_second", "prefill_tokens_per_second")
            rows.append(
                [type.name, *(spread(compare.each_ratio(rounds, each)) for each in figures)]
            )
        model.unlink()
    return table(("type", "decode, times llama.cpp", "prefill 128, times llama.cpp"), rows)


PARTS: dict[str, tuple[str, Callable[[Bench], str]]] = {
    "kernels": ("Kernels", kernels),
    "engine": ("Engine", engine),
    "compare": ("Beside llama.cpp", against),
    "types": ("Every type beside llama.cpp", types),
}


def machine() -> str:
    """What the figures were measured on."""
    from engine.kernels import ops

    names = [
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return (
        f"{datetime.date.today()}, {names[0] if names else platform.machine()}, "
        f"{os.cpu_count()} cores, variant {ops.variant()}."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, default=ROOT / "build/bench")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, a list (%(default)s)")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    bench = Bench(dir=args.dir, threads=args.threads, rounds=args.rounds)
    print(f"{machine()}\n", flush=True)
    for name in args.only.split(","):
        title, part = PARTS[name]
        print(f"## {title}\n\n{part(bench)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
