"""Several nodes at the same time, and the clock that everybody waits by."""

from __future__ import annotations

import threading
import time

import pytest

from kaput.faults.fault import Clock, in_parallel


def test_sixteen_actions_run_in_parallel() -> None:
    """Each waits until all have begun; the results are in their order."""
    all_there = threading.Barrier(16)

    def act(number: int) -> int:
        all_there.wait(60)
        return 2 * number

    assert in_parallel(act, range(16)) == [2 * number for number in range(16)]
    assert in_parallel(act, []) == []


def test_exception_is_raised_after_all_actions_ended() -> None:
    """The others are not left half-way."""
    done: list[int] = []

    def act(number: int) -> None:
        if number == 0:
            raise ValueError(number)
        done.append(number)

    with pytest.raises(ValueError, match="0"):
        in_parallel(act, range(5))
    assert sorted(done) == [1, 2, 3, 4]


def test_clock_sleeps_for_the_given_time() -> None:
    """And goes forward only."""
    clock = Clock()
    began = time.monotonic()
    before = clock.now()
    clock.sleep(0.02)
    assert 0.02 <= clock.now() - before <= time.monotonic() - began
