"""Lags by hand: how far a group was behind, and when it had caught up after a fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kaput.analysis.facts.lag import drained_ns, greatest, over_time

FOREVER = 10**9


def sampled(group: str, *lags: int) -> Iterator[dict[str, Any]]:
    """Ten units of time apart, from 10 on, in two halves: of two partitions."""
    for number, lag in enumerate(lags):
        for value in (lag // 2, lag - lag // 2):
            labels = [("group", group)]
            yield {"name": "lag", "at_ns": 10 * (number + 1), "value": float(value), "labels": labels}


@pytest.mark.parametrize(
    ("lags", "until", "drained"),
    [
        ((3, 5, 9, 8, 5, 0), FOREVER, 50),  # no more than it had been is enough
        ((3, 5, 9, 5, 6, 4), FOREVER, 60),  # it had not come back for good
        ((3, 5, 5, 4, 0, 0), FOREVER, None),  # it never rose
        ((3, 5, 9, 9, 9, 9), FOREVER, None),  # it never came back
        ((3, 5, 9, 8, 5, 0), 40, None),  # another fault came before
    ],
)
def test_time_at_which_a_group_caught_up(lags: tuple[int, ...], until: int, drained: int | None) -> None:
    """The fault takes hold at 25."""
    assert drained_ns(sampled("billing", *lags), 25, until) == drained


def test_catch_up_time_is_that_of_the_slowest_group() -> None:
    """The last of them says when; one that did not rise says nothing, nor does one that is new."""
    slow, fast = list(sampled("slow", 1, 1, 7, 7, 7, 1)), list(sampled("fast", 1, 1, 7, 1, 0, 0))
    idle, late = list(sampled("idle", 9, 9, 9, 9, 9, 9)), list(sampled("late", 0, 0, 8, 8, 8, 8))
    new = [row for row in late if row["at_ns"] > 20]
    assert drained_ns(slow + fast + idle + new, 25, FOREVER) == 60
    assert drained_ns(slow + fast + idle + late, 25, FOREVER) is None
    assert drained_ns(new, 25, FOREVER) is None


def test_lag_is_summed_over_partitions() -> None:
    """By group and moment; what is no lag is none."""
    rows = [*sampled("a", 3, 5), {"name": "isr", "at_ns": 10, "value": 9.0, "labels": [("group", "a")]}]
    assert over_time(rows) == {("a", 10): 3, ("a", 20): 5}
    assert (greatest(rows, "a"), greatest(rows, "b")) == (5, None)
