"""The sequential test, Wilson's interval and delta debugging."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.search.ddmin import ddmin
from kaput.search.sequential import LEAST_RATE, Rate, SequentialTest


def test_wilsons_interval_is_that_of_his_formula() -> None:
    low, high = Rate(4, 5).wilson
    assert (round(low, 4), round(high, 4)) == (0.3755, 0.9638)
    assert Rate(0, 0).wilson == (0, 1)
    assert Rate(5, 5).wilson[1] == 1


@pytest.mark.parametrize(("rate", "wanted"), [(0.9, True), (LEAST_RATE, True), (0.0, False), (0.01, False)])
def test_the_sequential_test_errs_in_at_most_about_one_of_twenty(rate: float, wanted: bool) -> None:
    rng, right = Random(1), 0
    for _ in range(1000):
        hits: list[bool] = []
        while (answer := SequentialTest(most=100).answer(hits)) is None:
            hits.append(rng.random() < rate)
        right += answer is wanted
    assert right >= 930


def test_a_verdict_is_no_accident_so_one_hit_says_that_it_reproduces() -> None:
    assert SequentialTest().answer([True]) is True
    assert SequentialTest().answer([False] * 6) is None
    assert SequentialTest().misses_to_reject == 7


def test_what_is_left_must_show_it_as_often_as_before() -> None:
    """Else leaving things out would end with what hardly ever shows it."""
    still = SequentialTest.for_rate(0.8)
    assert [still.answer(hits) for hits in ([True], [True, True], [True, False, False])] == [None, True, None]
    assert still.answer([True, False, False, False, False]) is False
    assert [SequentialTest.for_rate(rate).misses_to_reject for rate in (0.4, 0.8, 0.9)] == [6, 3, 2]


def test_no_more_is_tried_than_can_matter() -> None:
    assert SequentialTest.for_rate(0.8, most=2).answer([False]) is False
    assert SequentialTest.for_rate(0.8, most=2).answer([True, True]) is True


@given(st.sets(st.integers(0, 15), max_size=4), st.integers(1, 16))
def test_what_is_left_does_it_and_nothing_of_it_can_be_left_out(needed: set[int], size: int) -> None:
    needed = {each for each in needed if each < size}
    left = ddmin(range(size), lambda items: needed <= set(items))
    assert set(left) == needed
