"""Summaries of repeated runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.report.statistics import summarise, t95


def test_a_known_sample() -> None:
    """The interval of 2, 4, 6 is 4 +/- t(2) * 2 / sqrt(3)."""
    found = summarise([2, 4, 6])
    assert (found.n, found.mean, found.minimum, found.maximum) == (3, 4, 2, 6)
    assert found.low == pytest.approx(4 - 4.303 * 2 / 3**0.5)
    assert found.high == pytest.approx(4 + 4.303 * 2 / 3**0.5)


def test_one_value_has_no_interval() -> None:
    """One run says nothing of the spread."""
    found = summarise([7.5])
    assert (found.mean, found.low, found.high) == (7.5, None, None)


def test_no_value_is_an_error() -> None:
    """There is no mean of nothing."""
    with pytest.raises(ValueError, match="no values"):
        summarise([])


def test_between_the_rows_of_the_table_the_interval_is_the_wider_one() -> None:
    """35 degrees of freedom take the quantile of 30, never that of 40."""
    assert t95(35) == t95(30) > t95(40)
    assert t95(10_000) == t95(120)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=50))
def test_the_mean_lies_between(values: list[float]) -> None:
    """Mean between minimum and maximum, interval around the mean, whatever the values."""
    found = summarise(values)
    assert found.low is not None and found.high is not None
    slack = 1e-6 * max(1, abs(found.mean))
    assert found.minimum - slack <= found.mean <= found.maximum + slack
    assert found.low <= found.mean <= found.high
