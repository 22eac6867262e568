"""The child processes of the arms of several processes: frontends and the device owner.

    python -m rankd_bench_py.child '<JSON of ChildOptions>'

A child says "loaded" on its status pipe when it could start to serve, waits for a line on its command pipe, and says
"serving" when it does. It ends with its parent.
"""

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass

from rankd_bench_py import process
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.ring import FrontendEnd, Geometry, OwnerEnd


@dataclass(frozen=True)
class ChildOptions:
    """What a child is to do. Descriptors are inherited."""

    role: str  # "frontend" or "owner"
    parent: int
    model: str
    status_fd: int
    command_fd: int
    owner_bell: int
    rings: list[int]  # a frontend's own, or all
    bells: list[int]  # of the frontends, as rings
    device: str = ""  # owner
    batch: bool = False  # frontend: collect requests; owner: merge entries
    spin_seconds: float = 0.0
    listen: str = ""  # frontend
    threads: int = 8  # frontend
    cpu: int = -1  # frontend; -1: all of its parent
    tables_fd: int = -1  # frontend; -1: a private copy

    def to_json(self) -> str:
        """The argument of the child's command line."""
        return json.dumps(asdict(self))

    def descriptors(self) -> list[int]:
        """All descriptors that the child needs."""
        fds = [self.status_fd, self.command_fd, self.owner_bell, *self.rings, *self.bells]
        return fds if self.tables_fd < 0 else [*fds, self.tables_fd]


class _Parent:
    """The pipes to the process that started this one."""

    def __init__(self, options: ChildOptions) -> None:
        self._options = options

    def say(self, text: str) -> None:
        os.write(self._options.status_fd, f"{text}\n".encode())

    def await_go(self) -> None:
        if not os.read(self._options.command_fd, 1):
            raise SystemExit("start child process: its parent has ended")


def run_owner(options: ChildOptions, bundle: Bundle) -> None:
    """Runs the device owner until SIGTERM."""
    from rankd_bench_py.device import open_device
    from rankd_bench_py.owner import Owner

    parent = _Parent(options)
    geometry = Geometry.of(bundle)
    rings = [
        OwnerEnd(fd, geometry, options.owner_bell, bell) for fd, bell in zip(options.rings, options.bells, strict=True)
    ]
    device = open_device(options.device, bundle)
    owner = Owner(
        device,
        rings,
        options.owner_bell,
        max_batch=bundle.max_batch,
        merge=options.batch,
        spin_seconds=options.spin_seconds,
    )
    signal.signal(signal.SIGTERM, lambda *_: owner.stop())
    parent.say(f"loaded {device.name}")
    parent.await_go()
    parent.say("serving")
    owner.run()


def run_frontend(options: ChildOptions, bundle: Bundle) -> None:
    """Runs a frontend until SIGTERM."""
    from rankd_bench_py import rpc, tables
    from rankd_bench_py.ringbackend import BatchRingBackend, DirectRingBackend
    from rankd_bench_py.wire import Wire

    process.block_stop()
    if options.cpu >= 0:
        os.sched_setaffinity(0, {options.cpu})
    parent = _Parent(options)
    if options.tables_fd < 0:
        table, memory = tables.load_private(bundle)
    else:
        table, memory = tables.attach_shared(bundle, options.tables_fd)
    (ring_fd,), (bell,) = options.rings, options.bells
    ring = FrontendEnd(ring_fd, Geometry.of(bundle), bell, options.owner_bell)

    kind = BatchRingBackend if options.batch else DirectRingBackend
    backend = kind(bundle, table, ring, options.spin_seconds)
    parent.say(f"loaded {memory.huge_bytes()} of {memory.size} bytes on huge pages")
    parent.await_go()
    rpc.serve(
        options.listen, Wire(bundle), backend, lambda _: parent.say("serving"), threads=options.threads, reuse_port=True
    )


def main() -> None:
    """The command line."""
    options = ChildOptions(**json.loads(sys.argv[1]))
    process.die_with(options.parent)
    process.exact_timers()
    bundle = Bundle.open(options.model)
    if options.role == "owner":
        run_owner(options, bundle)
    else:
        run_frontend(options, bundle)


if __name__ == "__main__":
    main()
