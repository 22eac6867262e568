"""The ring, both ends in one process, and the owner's batches."""

import os
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from rankd_bench_py import ring
from rankd_bench_py.device import Launch, Part, SimLaunch
from rankd_bench_py.owner import Owner
from rankd_bench_py.ring import FAILED, OK, FrontendEnd, Geometry, OwnerEnd, Reservation

SMALL = Geometry(rows=8, row_floats=16)


def bell() -> int:
    return os.eventfd(0, os.EFD_NONBLOCK)


def pair(geometry: Geometry = SMALL, owner_bell: int = -1) -> tuple[FrontendEnd, OwnerEnd]:
    fd = ring.create(geometry)
    owner_bell = bell() if owner_bell < 0 else owner_bell
    own = bell()
    return FrontendEnd(fd, geometry, own, owner_bell), OwnerEnd(fd, geometry, owner_bell, own)


def reserve(frontend: FrontendEnd, rows: int) -> Reservation:
    reservation = frontend.reserve(rows)
    assert reservation is not None
    return reservation


def test_brings_rows_over_and_scores_back() -> None:
    frontend, owner = pair()
    reservation = reserve(frontend, 3)
    frontend.rows[reservation.first : reservation.first + 3] = np.arange(48).reshape(3, 16)
    assert not owner.pending()
    frontend.publish(reservation, 3)
    entry = owner.peek()
    assert entry is not None
    assert np.array_equal(owner.rows[entry.first : entry.first + entry.count].ravel(), np.arange(48))
    owner.take()
    assert owner.peek() is None
    assert not frontend.came_back()
    assert frontend.take() is None
    owner.complete(np.array([1, 2, 3], np.float32), entry)
    assert frontend.came_back()
    done = frontend.take()
    assert done is not None
    assert done.reservation is reservation
    assert (done.scores.tolist(), done.status) == ([1, 2, 3], OK)
    assert frontend.in_flight == 0


def test_a_failed_entry_comes_back_as_failed() -> None:
    frontend, owner = pair()
    frontend.publish(reserve(frontend, 1), 1)
    entry = owner.peek()
    assert entry is not None
    owner.take()
    owner.complete(None, entry)
    done = frontend.take()
    assert done is not None
    assert done.status == FAILED


def test_rows_are_in_one_piece_and_never_given_twice() -> None:
    frontend, owner = pair()
    rng = np.random.default_rng(5)
    writing: list[Reservation] = []
    used: list[Reservation] = []
    waits = 0
    for _ in range(3000):
        reservation = frontend.reserve(int(rng.integers(1, SMALL.rows // 2 + 1)))
        if reservation is not None:
            first, rows = reservation.first, reservation.rows
            assert first + rows <= SMALL.rows
            for other in [*writing, *used]:
                assert first + rows <= other.first or other.first + other.rows <= first
            writing.append(reservation)
        else:
            waits += 1
        if writing and (reservation is None or rng.random() < 0.5):
            chosen = writing.pop(int(rng.integers(len(writing))))  # not in the order of reservation
            frontend.publish(chosen, int(rng.integers(1, chosen.rows + 1)))
            used.append(chosen)
        if used and (reservation is None or rng.random() < 0.3):
            entry = owner.peek()
            assert entry is not None
            owner.take()
            owner.complete(np.zeros(entry.count, np.float32), entry)
            done = frontend.take()
            assert done is not None
            assert done.reservation is used.pop(0)
            frontend.free(done.reservation)
    assert waits > 100


def test_rings_the_bell_only_of_a_side_that_sleeps() -> None:
    frontend, owner = pair()
    frontend.publish(reserve(frontend, 1), 1)
    with pytest.raises(BlockingIOError):
        os.eventfd_read(owner.bell)
    owner.set_asleep(True)
    frontend.publish(reserve(frontend, 1), 1)
    assert os.eventfd_read(owner.bell) == 1
    owner.ring()
    assert os.eventfd_read(frontend.bell) == 1
    frontend.set_asleep(False)
    owner.ring()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(frontend.bell)


class Recorder:
    """A device whose score is the row's first number, and that remembers how rows were brought together."""

    name = "recorder"

    def __init__(self, *, timed: bool = True, fail: bool = False) -> None:
        self.batches: list[int] = []
        self._timed = timed
        self._fail = fail

    def launch(self, parts: Sequence[Part]) -> Launch:
        scores = np.concatenate([p.rows[:, 0] for p in parts])
        self.batches.append(len(scores))
        launch = SimLaunch(scores, 0)
        if not self._timed:
            launch.end_ns = None
        if self._fail:
            launch.result = _broken  # type: ignore[method-assign]
        return launch


def _broken() -> NDArray[np.float32]:
    raise RuntimeError("device is gone")


def fill(frontend: FrontendEnd, counts: Sequence[int], start: float) -> None:
    for i, count in enumerate(counts):
        reservation = reserve(frontend, count)
        frontend.rows[reservation.first : reservation.first + count] = start + i
        frontend.publish(reservation, count)


def run(device: Recorder, published: Sequence[Sequence[int]], *, merge: bool, max_batch: int) -> list[FrontendEnd]:
    """Has an owner work on entries of the given numbers of rows, one list a frontend, until it has done all."""
    owner_bell = bell()
    geometry = Geometry(rows=64, row_floats=16)
    pairs = [pair(geometry, owner_bell) for _ in published]
    for i, ((frontend, _), counts) in enumerate(zip(pairs, published, strict=True)):
        fill(frontend, counts, 100.0 * i)
    owner = Owner(device, [o for _, o in pairs], owner_bell, max_batch=max_batch, merge=merge, spin_seconds=0)
    owner.stop()
    owner.run()
    return [f for f, _ in pairs]


@pytest.mark.parametrize("timed", [True, False])
def test_owner_merges_what_waits_and_keeps_order(timed: bool) -> None:
    device = Recorder(timed=timed)
    frontends = run(device, [[3, 1, 4], [2, 2]], merge=True, max_batch=64)
    assert device.batches == [12]
    for i, frontend in enumerate(frontends):
        for k, count in enumerate([[3, 1, 4], [2, 2]][i]):
            done = frontend.take()
            assert done is not None
            assert done.scores.tolist() == [100.0 * i + k] * count


def test_owner_never_exceeds_the_largest_batch_nor_forgets_a_ring() -> None:
    device = Recorder()
    run(device, [[4, 4, 4], [4, 3]], merge=True, max_batch=8)
    assert device.batches == [8, 8, 3]


def test_owner_without_merging_runs_entries_one_by_one_in_turns() -> None:
    device = Recorder()
    run(device, [[1, 3], [2, 4]], merge=False, max_batch=8)
    assert device.batches == [1, 2, 3, 4]


def test_owner_hands_failures_back() -> None:
    frontends = run(Recorder(timed=False, fail=True), [[2]], merge=True, max_batch=8)
    done = frontends[0].take()
    assert done is not None
    assert done.status == FAILED


def test_a_sleeping_owner_wakes_for_an_entry() -> None:
    owner_bell = bell()
    frontend, end = pair(owner_bell=owner_bell)
    owner = Owner(Recorder(), [end], owner_bell, max_batch=8, merge=True, spin_seconds=0)
    thread = threading.Thread(target=owner.run)
    thread.start()
    for k in range(50):
        fill(frontend, [1], k)
        while (done := frontend.take()) is None:
            os.sched_yield()
        assert done.scores.tolist() == [k]
        frontend.free(done.reservation)
    owner.stop()
    thread.join(10)
    assert not thread.is_alive()
