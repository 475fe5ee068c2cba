"""The sequential test, Wilson's interval and delta debugging."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.search.ddmin import ddmin
from kaput.search.sequential import LEAST_RATE, Rate, decided, misses_to_decide


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
        while (answer := decided(hits, LEAST_RATE)) is None:
            hits.append(rng.random() < rate)
        right += answer is wanted
    assert right >= 930


def test_one_hit_or_two_misses_decide_where_it_nearly_always_shows() -> None:
    assert decided([True], 0.8) is True
    assert decided([False], 0.8) is None
    assert decided([False, False], 0.8) is False
    assert [misses_to_decide(rate) for rate in (LEAST_RATE, 0.8, 0.9)] == [7, 2, 2]


@given(st.sets(st.integers(0, 15), max_size=4), st.integers(1, 16))
def test_what_is_left_does_it_and_nothing_of_it_can_be_left_out(needed: set[int], size: int) -> None:
    needed = {each for each in needed if each < size}
    left = ddmin(range(size), lambda items: needed <= set(items))
    assert set(left) == needed
