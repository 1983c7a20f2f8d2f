"""The `lamina` command: one entry point, one module per subcommand.

This is the composition root: the only place that may import both `engine` and `services`. Each
subcommand module offers `add_parser(subparsers)`, which sets `run` to a function from parsed
arguments to an exit code, and imports what is heavy inside `run`, so that `lamina --help` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from engine.errors import EngineError
from services.cli import bench, generate, inspect, logits, policy_lab, serve
from services.common.errors import ServiceError

EXIT_REFUSED = 2  # bad input: a file, a flag, a prompt
EXIT_INTERRUPTED = 130  # as shells report SIGINT


def build_parser() -> argparse.ArgumentParser:
    """The parser of every subcommand; tests walk it."""
    parser = argparse.ArgumentParser(
        prog="lamina", description="Serve a mixture-of-experts model in GGUF to a whole team."
    )
    parser.add_argument("--version", action="version", version=f"lamina {version('lamina')}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (serve, generate, logits, bench, policy_lab, inspect):
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; errors of the user's making become one line and exit code 2."""
    args = build_parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except (EngineError, ServiceError) as error:
        sys.stderr.write(f"lamina: error: {error}\n")
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
