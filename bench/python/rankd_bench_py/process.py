"""What a process of these servers asks of the kernel."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29

_libc = ctypes.CDLL(None, use_errno=True)


_STOP = (signal.SIGTERM, signal.SIGINT)


def block_stop() -> None:
    """Keeps SIGTERM and SIGINT for await_stop, in this thread and those that it starts: call it before any starts.

    A Python handler would run only when the main thread next runs Python, and that can be asleep on a lock by then.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)


def await_stop() -> None:
    """Sleeps until SIGTERM or SIGINT."""
    signal.sigwait(_STOP)


def exact_timers() -> None:
    """Lets sleeps of this thread, and of those that it starts, end on time instead of up to 50 us late."""
    _libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Has the kernel kill this process when ``parent``, which started it, ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("start child process: its parent has ended")
