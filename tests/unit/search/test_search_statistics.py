"""The sequential test, Wilson's interval and delta debugging."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.search.searching import ddmin
from kaput.search.sequential import LEAST_RATE, Rate, SequentialTest


def test_wilson_interval_matches_reference_values() -> None:
    low, high = Rate(4, 5).wilson
    assert (round(low, 4), round(high, 4)) == (0.3755, 0.9638)
    assert Rate(0, 0).wilson == (0, 1)
    assert Rate(5, 5).wilson[1] == 1


@pytest.mark.parametrize(("rate", "wanted"), [(0.9, True), (LEAST_RATE, True), (0.0, False), (0.01, False)])
def test_sequential_test_error_rate_is_about_5_percent_at_most(rate: float, wanted: bool) -> None:
    rng, right = Random(1), 0
    for _ in range(1000):
        hits: list[bool] = []
        while (answer := SequentialTest(most=100).answer(hits)) is None:
            hits.append(rng.random() < rate)
        right += answer is wanted
    assert right >= 930


def test_one_hit_proves_that_a_bug_reproduces() -> None:
    assert SequentialTest().answer([True]) is True
    assert SequentialTest().answer([False] * 6) is None
    assert SequentialTest().misses_to_reject == 7


def test_shrunk_choices_must_reproduce_at_the_previous_rate() -> None:
    """Else leaving things out would end with what hardly ever shows it."""
    still = SequentialTest.for_rate(0.8)
    assert [still.answer(hits) for hits in ([True], [True, True], [True, False, False])] == [None, True, None]
    assert still.answer([True, False, False, False, False]) is False
    assert [SequentialTest.for_rate(rate).misses_to_reject for rate in (0.4, 0.8, 0.9)] == [6, 3, 2]


def test_sequential_test_stops_when_the_outcome_is_certain() -> None:
    assert SequentialTest.for_rate(0.8, most=2).answer([False]) is False
    assert SequentialTest.for_rate(0.8, most=2).answer([True, True]) is True


@given(st.sets(st.integers(0, 15), max_size=4), st.integers(1, 16))
def test_ddmin_result_is_exactly_the_needed_set(needed: set[int], size: int) -> None:
    needed = {each for each in needed if each < size}
    left = ddmin(range(size), lambda items: needed <= set(items))
    assert set(left) == needed
