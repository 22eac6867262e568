"""The command line: serves a bundle with one of the arms until SIGTERM.

    python -m rankd_bench_py --arm py-mp-batch --model DIR --listen 127.0.0.1:8500 --device sim

Prints one line when it serves: READY, the address, and a JSON object that describes the processes.
"""

import argparse
import json
import os
import sys

import numpy as np

from rankd_bench_py import process
from rankd_bench_py.bundle import Bundle, BundleError
from rankd_bench_py.processes import Group, StartError

SPIN_SECONDS = 100e-6
THREADS = 8
BATCH_THREADS = 512

ARMS = {
    "py": "one process: gRPC with 8 worker threads, each request looked up and run by itself",
    "py-batch": "one process: requests collected for 1 ms or 4096 rows, then looked up and run together",
    "py-mp": "frontend processes like py with a device owner behind /dev/shm rings, each request by itself",
    "py-mp-batch": "as py-mp, with a batcher a frontend and an owner that merges what waits",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rankd_bench_py",
        description="Serve a model bundle with Python, to compare rankd with.",
        epilog="\n".join(f"  {name:12} {text}" for name, text in ARMS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cpus = len(os.sched_getaffinity(0))
    parser.add_argument("--arm", required=True, choices=ARMS)
    parser.add_argument("--model", required=True, metavar="DIR", help="bundle directory")
    parser.add_argument("--listen", default="127.0.0.1:8500", metavar="HOST:PORT", help="port 0 lets the kernel choose")
    parser.add_argument("--device", choices=["jax", "sim"], default="jax", help="sim is a simulated accelerator")
    parser.add_argument(
        "--num_processes", type=int, default=cpus, metavar="N", help="frontends of py-mp and py-mp-batch"
    )
    parser.add_argument(
        "--shared_tables", action="store_true", help="py-mp arms: one copy of the tables for all frontends"
    )
    parser.add_argument(
        "--num_threads",
        type=int,
        default=0,
        metavar="N",
        help=f"gRPC worker threads a process; default {THREADS}, or {BATCH_THREADS} where calls wait for a batch",
    )
    parser.add_argument(
        "--pin", choices=["on", "off"], default="on", help="py-mp arms: keep each frontend on one CPU, in turns"
    )
    parser.add_argument(
        "--spin",
        choices=["auto", "on", "off"],
        default="auto",
        help="spin before sleeping on the rings; auto: if there is a CPU for every process",
    )
    return parser


def _spins(choice: str, actors: int) -> bool:
    if choice == "auto":
        return len(os.sched_getaffinity(0)) >= actors
    return choice == "on"


def _ready(address: str, **details: object) -> None:
    print(f"READY {address} {json.dumps(details)}", flush=True)


def _serve_one(args: argparse.Namespace, bundle: Bundle) -> int:
    from rankd_bench_py import rpc, tables
    from rankd_bench_py.device import open_device
    from rankd_bench_py.localbackend import BatchBackend, DirectBackend
    from rankd_bench_py.wire import Wire

    process.block_stop()
    process.exact_timers()
    table, memory = tables.load_private(bundle)
    device = open_device(args.device, bundle)
    host = args.listen.rpartition(":")[0]

    def ready(port: int) -> None:
        pages = f"{memory.huge_bytes()} of {memory.size} bytes on huge pages"
        _ready(f"{host}:{port}", arm=args.arm, device=device.name, pages=pages, spin=False, pids=[os.getpid()])

    kind = DirectBackend if args.arm == "py" else BatchBackend
    backend = kind(bundle, table, device)
    rpc.serve(args.listen, Wire(bundle), backend, ready, threads=args.num_threads, reuse_port=False)
    return 0


def _serve_group(args: argparse.Namespace, bundle: Bundle) -> int:
    spin = _spins(args.spin, args.num_processes + 1)
    group = Group(
        bundle,
        listen=args.listen,
        frontends=args.num_processes,
        device=args.device,
        batch=args.arm == "py-mp-batch",
        shared_tables=args.shared_tables,
        spin_seconds=SPIN_SECONDS if spin else 0.0,
        threads=args.num_threads,
        pin=args.pin == "on",
    )
    return group.run(
        lambda: _ready(
            group.address,
            arm=args.arm,
            device=group.device,
            pages=group.pages,
            spin=spin,
            pids=[os.getpid(), *group.pids],
        )
    )


def main() -> int:
    """The command line; the exit status."""
    args = _parser().parse_args()
    if args.num_processes < 1:
        raise SystemExit(f"--num_processes: got {args.num_processes}, want at least 1")
    args.num_threads = args.num_threads or (BATCH_THREADS if args.arm.endswith("batch") else THREADS)
    multi = args.arm.startswith("py-mp")
    if args.shared_tables and not multi:
        raise SystemExit(f"--shared_tables: got arm {args.arm}, want py-mp or py-mp-batch")
    np.seterr(all="ignore")  # scores of damaged rows are NaN, without a word a request
    try:
        bundle = Bundle.open(args.model)
        return _serve_group(args, bundle) if multi else _serve_one(args, bundle)
    except (BundleError, StartError, OSError, RuntimeError) as error:
        print(f"serve {args.model}: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
