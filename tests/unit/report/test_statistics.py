"""Summaries of repeated runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.report.statistics import LEAST, summarise


@pytest.mark.parametrize("values", [[7.5], [4, 0], [1, 2, 3, 4]])
def test_few_values_have_no_interval(values: list[float]) -> None:
    """Their mean and extremes are all that is known."""
    found = summarise(values)
    assert (found.n, found.mean) == (len(values), sum(values) / len(values))
    assert (found.minimum, found.maximum) == (min(values), max(values))
    assert (found.low, found.high, found.interval) == (None, None, "-")


def test_an_interval_is_the_same_each_time_and_in_any_order() -> None:
    """The resampling is seeded; its percentiles are nearly those of a normal distribution."""
    values = [8.0, 3.0, 5.0, 12.0, 7.0, 6.0, 9.0, 4.0, 10.0, 6.0]
    found = summarise(values)
    assert found == summarise(values) == summarise(sorted(values, reverse=True))
    # 7 +/- 1.96 * 2.65 / sqrt(10), roughly
    assert found.low == pytest.approx(5.4, abs=0.3) and found.high == pytest.approx(8.6, abs=0.3)


def test_identical_values_have_a_zero_width_interval() -> None:
    """Nothing was resampled for it."""
    assert summarise([23] * LEAST).interval == "23 to 23"


def test_summary_of_no_values_is_an_error() -> None:
    """There is no mean of nothing."""
    with pytest.raises(ValueError, match="no values"):
        summarise([])


@given(st.lists(st.integers(0, 40_000) | st.floats(0, 1e6), min_size=LEAST, max_size=20))
def test_confidence_interval_stays_within_the_sample_range(values: list[float]) -> None:
    """Never below 0, never above what was sent."""
    found = summarise(values)
    assert found.low is not None and found.high is not None
    slack = 1e-9 * found.maximum
    assert found.minimum - slack <= found.low <= found.high <= found.maximum + slack
    assert found.minimum <= found.mean <= found.maximum
