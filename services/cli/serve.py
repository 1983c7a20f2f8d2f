"""`lamina serve MODEL`: the whole system on one machine.

1. The model file is checked here: a bad one is refused with one line before anything starts.
2. Worker, scheduler and gateway start as processes of their own (`services.cli.processes`), joined
   by Unix sockets in a private folder; the gateway's port may be 0.
3. When `/health` answers 200 the URL is printed.
4. SIGTERM and SIGINT are passed on in request order (gateway, scheduler, worker), each process
   finishing what it has; a second signal kills. A process that dies takes the system down and its
   exit code is ours: nothing is restarted silently.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from services.cli.arguments import add_engine_flags, engine_arguments, engine_config
from services.cli.processes import Child, Supervisor, python_module
from services.common.config import count, count_or_auto, port, seconds

PORT_MAX = 65535


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare `lamina serve`."""
    parser = subparsers.add_parser(
        "serve", help="serve a model over HTTP", description="Serve a model over HTTP."
    )
    add_engine_flags(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=port, default=8080, help="0 picks a free one (%(default)s)")
    parser.add_argument(
        "--metrics-port",
        type=port,
        help="/metrics of the scheduler; the worker's is one more (default: --port + 1; 0: any)",
    )
    parser.add_argument("--model-id", help="name that clients ask for (default: from the file)")
    parser.add_argument("--workers", type=count, default=1, help="worker processes; 1 so far")
    parser.add_argument("--device", default="auto", help="auto or cpu so far (%(default)s)")
    parser.add_argument(
        "--sequences-max", type=count_or_auto, default=0, help="sequences at once; 0: auto"
    )
    parser.add_argument("--queue-requests-max", type=count, default=256, help="requests waiting")
    parser.add_argument("--drain-seconds", type=seconds, default=30.0, help="to finish on SIGTERM")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; returns the exit code."""
    from engine.errors import EngineError
    from engine.load import check_model

    first = metrics_port(args)
    if first + 1 > PORT_MAX:
        raise EngineError(
            f"--port {args.port}: the metrics ports after it do not exist; give --metrics-port"
        )
    if args.workers != 1:
        raise EngineError(f"--workers {args.workers}: one worker is supported so far")
    if args.device not in ("auto", "cpu"):
        raise EngineError(f"--device {args.device}: this build computes on the CPU only (cpu)")
    check_model(engine_config(args))
    with tempfile.TemporaryDirectory(prefix="lamina-") as folder:
        return asyncio.run(Supervisor(children(args, Path(folder)), args.drain_seconds).run())


def children(args: argparse.Namespace, folder: Path) -> list[Child]:
    """The processes in the order of their start; they are stopped in the reverse order."""
    worker, scheduler = f"unix:{folder}/worker.sock", f"unix:{folder}/scheduler.sock"
    drain = ["--drain-seconds", str(args.drain_seconds)]
    first = metrics_port(args)
    metrics = [f"{args.host}:{first and first + n}" for n in (0, 1)]  # port 0 stays 0
    model_id = ["--model-id", args.model_id] if args.model_id else []
    return [
        Child(
            name="worker",
            command=python_module(
                "services.worker",
                *("--model", str(args.model), "--listen", worker, "--metrics-listen", metrics[1]),
                *engine_arguments(args),
                *("--sequences-max", str(args.sequences_max), *drain),
            ),
        ),
        Child(
            name="scheduler",
            command=python_module(
                "services.scheduler",
                *("--worker", worker, "--listen", scheduler, "--metrics-listen", metrics[0]),
                *("--queue-requests-max", str(args.queue_requests_max), *drain),
            ),
        ),
        Child(
            name="gateway",
            command=python_module(
                "services.gateway",
                *("--model", str(args.model), "--scheduler", scheduler, *model_id),
                *("--host", args.host, "--port", str(args.port), *drain),
            ),
            announces_url=True,
        ),
    ]


def metrics_port(args: argparse.Namespace) -> int:
    """The scheduler's; the worker's is one more. 0: any, as is the gateway's own port then."""
    if args.metrics_port is not None:
        return int(args.metrics_port)
    return int(args.port + 1) if args.port else 0
