"""`lamina inspect MODEL`: what is in a model file, without loading it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.errors import printable


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `lamina inspect`."""
    parser = subparsers.add_parser("inspect", help="what is in a model file")
    parser.add_argument("model", type=Path, help="GGUF file (any shard of a split set)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the report."""
    record = describe(args.model)
    sys.stdout.write((json.dumps(record) if args.json else _text(record)) + "\n")
    return 0


def describe(path: Path) -> dict[str, object]:
    """The report as plain values. Raises ModelFileError."""
    from engine.gguf.census import census
    from engine.gguf.reader import open_gguf

    with open_gguf(path) as model:
        counted = census(model)
        meta, prefix = model.metadata, model.architecture
        return {
            "architecture": prefix,
            "name": meta.text("general.name", path.stem),
            "files": [str(file) for file in model.files],
            "parameters": counted.parameters,
            "bytes": counted.total_bytes,
            "bytes_by_part": {part.value: n for part, n in counted.bytes_by_part.items()},
            "bytes_by_type": counted.bytes_by_type,
            "tensors_by_type": counted.tensors_by_type,
            "experts": counted.experts,
            "experts_used": counted.experts_used,
            "bytes_per_token": counted.bytes_per_token,
            "context": meta.integer(f"{prefix}.context_length", 0),
            "tokenizer": "/".join(
                meta.text(f"tokenizer.ggml.{key}", "none") for key in ("model", "pre")
            ),
        }


def _text(record: dict[str, object]) -> str:
    by_part, by_type = record["bytes_by_part"], record["bytes_by_type"]
    tensors, files, total = record["tensors_by_type"], record["files"], record["bytes"]
    assert isinstance(by_part, dict)
    assert isinstance(by_type, dict)
    assert isinstance(tensors, dict)
    assert isinstance(files, list)
    assert isinstance(total, int)
    experts = f"{record['experts_used']} of {record['experts']}" if record["experts"] else "none"
    lines = [
        printable(f"{record['name']}  ({record['architecture']}, ")
        + f"{record['parameters']:,} parameters)",
        *(f"  file          {printable(file)}" for file in files),
        f"  context       {record['context']:,} positions",
        f"  tokenizer     {printable(str(record['tokenizer']))}",
        f"  experts used  {experts}",
        "",
        "  bytes by part",
        *(f"    {part:<16}{_size(n):>12}  {n / total:>6.1%}" for part, n in by_part.items()),
        f"    {'all':<16}{_size(total):>12}",
        "",
        "  bytes by type",
        *(f"    {t:<16}{_size(n):>12}  {tensors[t]:>5} tensors" for t, n in by_type.items()),
        "",
        f"  one token reads {_size(record['bytes_per_token'])}",
    ]
    return "\n".join(lines)


def _size(count: object) -> str:
    assert isinstance(count, int)
    for unit, scale in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << scale:
            return f"{count / (1 << scale):.2f} {unit}"
    return f"{count} B"
