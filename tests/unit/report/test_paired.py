"""Paired statistics, against values worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaput.report.regression_report import Pairs, holm, pairs_needed
from kaput.report.statistics import LEAST, summarise, wilson

VALUES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8)


def rising(n: int) -> Pairs:
    """n pairs, each higher by another amount."""
    return Pairs([(100.0, 101.0 + at) for at in range(n)])


@pytest.mark.parametrize(("n", "p"), [(1, 1.0), (2, 0.5), (5, 2 / 32), (10, 2 / 1024)])
def test_pairs_that_all_go_up_have_the_smallest_p_there_is(n: int, p: float) -> None:
    """Of 2**n ways to flip signs only two are as far from 0."""
    assert rising(n).p == p
    assert rising(n).effect == 1.0


def test_many_pairs_use_seeded_sampling() -> None:
    """The exact p of 40 pairs would take a million million flips."""
    assert rising(40).p == rising(40).p == pytest.approx(1 / 20_001)


def test_single_opposing_pair_gives_p_of_one() -> None:
    """Differences of 1, 1, 1 and -3: their mean is 0, and every flip is as far."""
    pairs = Pairs([(0, 1), (0, 1), (0, 1), (3, 0)])
    assert (pairs.p, pairs.effect, pairs.difference.mean) == (1.0, 0.5, 0)


@given(VALUES)
def test_p_does_not_depend_on_which_side_is_first(values: list[tuple[int, int]]) -> None:
    """Two-sided; the effect changes its sign."""
    one, other = Pairs(values), Pairs([(b, a) for a, b in values])
    assert one.p == pytest.approx(other.p)
    assert one.effect == -other.effect
    assert 0 < one.p <= 1


def test_identical_pairs_show_no_effect() -> None:
    """And have no share where the mean before is 0."""
    pairs = Pairs([(0, 0), (0, 0)])
    assert (pairs.p, pairs.differs, pairs.share) == (1.0, False, None)


def test_holm_adjusted_p_values() -> None:
    """Holm's own way: the k-th smallest by what is left, never below one before it, never above 1."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(("comparisons", "pairs"), [(1, 6), (10, 9), (36, 11)])
def test_pairs_needed_for_a_number_of_comparisons(comparisons: int, pairs: int) -> None:
    """With one pair less the smallest p there is would not be enough."""
    assert pairs_needed(comparisons, 0.05) == pairs
    assert rising(pairs).p * comparisons <= 0.05 < rising(pairs - 1).p * comparisons


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634)]
)
def test_wilsons_interval_of_a_share(hits: int, n: int, low: float, high: float) -> None:
    """Values of tables; none of ten may still be one of four."""
    assert wilson(hits, n) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("before", "now", "small"), [(100, 105, False), (3, 3.15, False), (3, 3.14, True)])
def test_a_share_of_the_figure_before_is_compared_exactly(before: float, now: float, small: bool) -> None:
    """3.15 is 5 % more than 3; in floating point it is less."""
    assert Pairs([(before, now)] * 3).is_at_least(Fraction(1, 20)) is not small
    assert Pairs([(now, before)] * 3).is_at_least(Fraction(1, 30))


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
