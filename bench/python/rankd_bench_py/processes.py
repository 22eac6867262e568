"""The parent of the arms of several processes: starts them in order, waits, and stops them in order."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from rankd_bench_py import ring, rpc, tables
from rankd_bench_py.bundle import Bundle
from rankd_bench_py.child import ChildOptions

_READY_LIMIT = 600.0  # seconds: tables of gigabytes are copied and programs compiled
_STOP_LIMIT = rpc.GRACE + 10


class StartError(Exception):
    """A child ended or took too long before it served."""


@dataclass
class _Child:
    options: ChildOptions
    process: "subprocess.Popen[bytes]"
    status: int  # to read from
    command: int  # to write to

    def expect(self, word: str) -> str:
        """Waits for a line that starts with ``word`` and returns the rest."""
        line = b""
        end = time.monotonic() + _READY_LIMIT
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.status], [], [], max(0.0, end - time.monotonic()))
            piece = os.read(self.status, 1) if ready else b""
            if not piece:
                raise StartError(
                    f"start {self.options.role}: it ended or took longer than {_READY_LIMIT:.0f} s; want {word!r}"
                )
            line += piece
        first, _, rest = line.decode().strip().partition(" ")
        if first != word:
            raise StartError(f"start {self.options.role}: got {first!r}, want {word!r}")
        return rest


class Group:
    """A device owner and its frontends."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        listen: str,
        frontends: int,
        device: str,
        batch: bool,
        shared_tables: bool,
        spin_seconds: float,
        threads: int,
        pin: bool,
    ) -> None:
        """Starts the processes. Raises StartError."""
        self._stopping = False
        self._children: list[_Child] = []
        host, _, port = listen.rpartition(":")
        # Keeps the port, also one that the kernel chose, for the frontends. It does not listen: it gets no connections.
        self._reservation = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reservation.bind((host.strip("[]"), int(port)))
        self.address = f"{host}:{self._reservation.getsockname()[1]}"
        tables_fd = tables.create_shared(bundle) if shared_tables else -1
        rings = [ring.create(ring.Geometry.of(bundle)) for _ in range(frontends)]
        bells = [os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(frontends)]
        owner_bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

        def start(role: str, rings: list[int], bells: list[int], cpu: int = -1) -> None:
            status_read, status_write = os.pipe()
            command_read, command_write = os.pipe()
            options = ChildOptions(
                role=role,
                parent=os.getpid(),
                model=str(bundle.directory),
                status_fd=status_write,
                command_fd=command_read,
                owner_bell=owner_bell,
                rings=rings,
                bells=bells,
                device=device,
                batch=batch,
                spin_seconds=spin_seconds,
                listen=self.address,
                threads=threads,
                cpu=cpu,
                tables_fd=tables_fd if role == "frontend" else -1,
            )
            command = [sys.executable, "-m", "rankd_bench_py.child", options.to_json()]
            # A process group of its own: what a terminal sends to the group must reach the parent alone.
            process = subprocess.Popen(
                command, pass_fds=options.descriptors(), stdin=subprocess.DEVNULL, process_group=0
            )
            os.close(status_write)
            os.close(command_read)
            self._children.append(_Child(options, process, status_read, command_write))

        try:
            start("owner", rings, bells)
            # One processor for all threads of a frontend: they take turns at the interpreter anyway, and passing it to
            # a thread on another processor takes longer than most of what they do with it.
            cpus = sorted(os.sched_getaffinity(0))
            for i, (fd, bell) in enumerate(zip(rings, bells, strict=True)):
                start("frontend", [fd], [bell], cpus[i % len(cpus)] if pin else -1)
            for fd in [*rings, *bells, owner_bell] + ([tables_fd] if shared_tables else []):
                os.close(fd)
            self.device, *pages = [c.expect("loaded") for c in self._children]
            self.pages = pages[0]
            for child in self._children:
                os.write(child.command, b"\n")
                child.expect("serving")
        except BaseException:
            self._kill()
            raise

    @property
    def pids(self) -> list[int]:
        """The children: the owner, then the frontends."""
        return [c.process.pid for c in self._children]

    def run(self, ready: Callable[[], None]) -> int:
        """Calls ``ready``, waits for SIGTERM, drains, and returns the exit status: 1 if a child ended by itself."""

        def stop(_: int, __: FrameType | None) -> None:
            self._stopping = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        ready()
        while not self._stopping:
            # A child that ends closes its pipe; a signal interrupts the sleep only between two of them.
            ended, _, _ = select.select([c.status for c in self._children], [], [], 0.2)
            if ended and not self._stopping:
                print("run servers: a child process ended", file=sys.stderr, flush=True)
                self._kill()
                return 1
        owner, *frontends = self._children
        for some in (frontends, [owner]):  # the owner last: frontends wait for scores
            for child in some:
                child.process.terminate()
            for child in some:
                if child.process.wait(_STOP_LIMIT) != 0:
                    print(
                        f"stop {child.options.role}: got exit status {child.process.returncode}, want 0",
                        file=sys.stderr,
                        flush=True,
                    )
                    self._kill()
                    return 1
        return 0

    def _kill(self) -> None:
        for child in self._children:
            child.process.kill()
            child.process.wait()
