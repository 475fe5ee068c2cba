"""The engine's small parts against plain Python, on whatever Hypothesis thinks of."""

from __future__ import annotations

import statistics
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kaput.analysis.closer.redelivery import overlaps
from kaput.analysis.dense.buckets import between
from kaput.analysis.dense.columns import Columns, constant
from kaput.analysis.dense.histogram import Histogram
from kaput.analysis.dense.numbers import NULL
from kaput.analysis.dense.pack import pack, pack_parts, unpack
from kaput.analysis.dense.pile import MOST, Pile, Piles
from kaput.analysis.dense.scan import zones
from kaput.analysis.dense.split import by_key, grouped
from kaput.analysis.dense.streams import joined, longest, stretch
from kaput.analysis.dense.summary import Run
from kaput.analysis.dense.timing import whole_us

LONGS = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 300)
COLUMNS = st.one_of(
    st.lists(LONGS),
    st.lists(SMALL),
    st.builds(lambda start, step, n: [start + step * i for i in range(n)], SMALL, SMALL, SMALL),
    st.builds(
        lambda low, rest: [low + value for value in rest], st.integers(-(2**40), 2**40), st.lists(SMALL)
    ),
)


@given(st.lists(st.lists(COLUMNS, min_size=2, max_size=2), min_size=1, max_size=4))
def test_packed_columns_come_back(packs: list[list[list[int]]]) -> None:
    """Whatever is packed is unpacked as it was, several packs one behind the other."""
    packs = [[column[: min(map(len, columns))] for column in columns] for columns in packs]
    arrays = [[np.array(column, np.int64) for column in columns] for columns in packs]
    expected = [list(chain(*columns)) for columns in zip(*packs, strict=True)]
    assert unpack([pack(each) for each in arrays], 2).tolist() == expected
    bounds = np.cumsum([0, *(len(columns[0]) for columns in packs)])
    whole = np.array(expected, np.int64).reshape(2, -1)
    assert list(pack_parts(whole, bounds)) == [pack(each) for each in arrays]


def test_what_is_regular_takes_no_room() -> None:
    """A constant or a progression costs its head alone; small steps cost ten bits each, usual ones two."""
    regular = pack([np.arange(0, 70_000, 7), np.full(10_000, 5), constant(9, 10_000)])
    assert len(regular) < 100
    steps = np.cumsum(np.tile([1, 200], 5_000)) + 2**50
    assert len(pack([steps])) < 12_700
    offsets = np.arange(10_000) + np.repeat(np.arange(100), 100) * 70_000
    assert len(pack([offsets])) < 3_000


@given(
    st.sampled_from([pa.bool_(), pa.int32(), pa.int64()]),
    st.lists(st.none() | st.integers(0, 1), max_size=40),
    st.integers(0, 9),
)
def test_columns_with_nulls_are_read_as_they_are(
    kind: pa.DataType, values: list[int | None], first: int
) -> None:
    """Numbers and booleans of any width, NULL where nothing is, also of a part of the rows."""
    array = pa.array(values, pa.int64()).cast(kind)
    columns = Columns(len(values), arrays={"c": array})
    expected = [NULL if value is None else value for value in values]
    assert columns.numbers("c").tolist() == expected
    part = columns.part(min(first, len(values)), max(0, len(values) - first))
    assert part.numbers("c").tolist() == expected[first:]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), max_size=120))
def test_rows_are_taken_apart_by_key(keys: list[tuple[int, int]]) -> None:
    """Every row is in the group of its key once, in order; `grouped` gives each key once."""
    columns = [np.array([key[i] for key in keys], np.int64) for i in (0, 1)]
    expected = {key: [row for row, other in enumerate(keys) if other == key] for key in set(keys)}
    positions = np.arange(len(keys))
    assert {key: positions[rows].tolist() for key, rows in grouped(*columns)} == expected
    found: dict[tuple[int, ...], list[int]] = {}
    for key, rows in by_key(*columns):
        found.setdefault(key, []).extend(positions[rows].tolist())
    assert found == expected


@given(st.lists(st.lists(st.integers(-5_000, 10_000_000), max_size=30), min_size=1, max_size=3))
def test_histogram_is_exact(parts: list[list[int]]) -> None:
    """Merged histograms count every microsecond; the median is that of the values."""
    total = Histogram()
    for part in parts:
        one = Histogram()
        one.add_us(np.array([whole_us(value) for value in part], np.int64))
        total.add(one)
    values = [int(value / 1000) for part in parts for value in part]
    assert dict(zip(total.us.tolist(), total.times.tolist(), strict=True)) == {
        value: values.count(value) for value in values
    }
    if values:
        assert total.percentiles([0.5]) == [statistics.median(values)]


@given(
    st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=40), min_size=1, max_size=3),
    st.integers(2, 8),
)
def test_longest_gap_is_that_of_all_times(parts: list[list[int]], ends: int) -> None:
    """What the stretches tell is the longest gap of all times, or that they do not tell."""
    times = sorted(value for part in parts for value in part)
    last = times[-1] + 3
    gap = longest([stretch(np.array(part, np.int64), ends) for part in parts], [0, last])
    points = sorted([0, *times, last])
    expected = max(pairwise(points), key=lambda pair: (pair[1] - pair[0], -pair[0]))
    assert gap is None or (gap.from_ns, gap.to_ns) == expected


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=40), min_size=1, max_size=6),
    st.integers(2, 5),
    st.booleans(),
)
def test_joined_stretches_tell_the_same_gap(steps: list[list[int]], ends: int, apart: bool) -> None:
    """Stretches one after the other become one, from which the longest gap is known as before."""
    times = np.cumsum(np.array([step for part in steps for step in part], np.int64)) + 5
    cuts = np.cumsum([len(part) for part in steps])[:-1]
    parts = [stretch(part, ends) for part in np.split(times, cuts)]
    if not apart:
        parts.append(stretch(times[: len(times) // 2 + 1], ends))
    found = joined(parts, ends)
    assert len(found) == 1 or len(found) == len(parts)
    assert not apart or len(found) == 1
    last = int(times[-1]) + 3
    assert longest(found, [0, last]) == longest(parts, [0, last])


def test_stretches_one_after_the_other_always_tell() -> None:
    """In the order of time, with ends that overlap a little, nothing is left open."""
    times = np.cumsum(np.random.default_rng(1).integers(1, 1000, 10_000))
    parts = [times[:5_010], times[4_990:]]
    gap = longest([stretch(part, 64) for part in parts], [])
    assert gap is not None
    steps = np.diff(times)
    assert gap.to_ns - gap.from_ns == steps.max()


@given(
    st.lists(st.integers(0, 20), max_size=5, unique=True),
    st.lists(st.tuples(st.integers(0, 22), st.integers(0, 9)), max_size=40),
    st.integers(1, 4),
)
def test_buckets_know_their_latest_deliveries(
    cuts: list[int], rows: list[tuple[int, int]], kept: int
) -> None:
    """Each bucket between cuts counts its rows and keeps the last few by time and offset, the last first."""
    cuts = sorted(cuts)
    columns = [np.array([row[i] for row in rows], np.int64) for i in (0, 1)]
    counts, latest = between(np.array(cuts, np.int64), *columns, kept)
    for bucket in range(len(cuts) + 1):
        mine = [row for row in rows if sum(cut <= row[0] for cut in cuts) == bucket]
        last_first = sorted(((at_ns, offset) for offset, at_ns in mine), reverse=True)
        told = [pair for pair in latest[bucket].reshape(-1, 2).tolist() if pair[0] != NULL]
        assert counts[bucket] == len(mine)
        assert told == [list(pair) for pair in last_first[:kept]]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=8))
def test_overlaps_hold_every_offset_that_is_there_twice(pairs: list[tuple[int, int]]) -> None:
    """Runs of offsets: where two of them lie over one another, and nowhere else, is a zone."""
    runs = [Run(low, low + more, more + 1, True) for low, more in pairs]
    found = overlaps(runs)
    twice = [n for n in range(80) if sum(run.low <= n <= run.high for run in runs) > 1]
    held = [] if found is None else np.flatnonzero(found.hold(np.arange(80))).tolist()
    assert held == twice


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=8))
def test_zones_hold_what_their_intervals_hold(pairs: list[tuple[int, int]]) -> None:
    """Intervals in any order become zones that are apart from one another."""
    starts = np.array([start for start, _ in pairs], np.int64)
    ends = np.array([start + size for start, size in pairs], np.int64)
    found = zones(starts, ends)
    inside = [n for n in range(70) if any(start <= n < start + size for start, size in pairs)]
    assert np.flatnonzero(found.hold(np.arange(70))).tolist() == inside
    assert (found.starts[1:] > found.ends[:-1]).all()


def test_piles_that_are_too_much_are_dropped_and_said() -> None:
    """The driver never holds more than it can: from then on only the fact counts."""
    piles = Piles()
    piles["claims"].put(place=np.zeros(MOST, np.int64))
    piles.settle()
    assert not piles.full
    more = Piles()
    more["astray"].put(place=np.zeros(1, np.int64))
    piles.add(more)
    assert piles.full
    assert not piles


def test_a_pile_gives_its_columns() -> None:
    """Numbers stand for whole columns; a pile without rows has empty ones."""
    pile = Pile()
    pile.put(place=3, offset=np.array([7, 8]))
    pile.put(place=4, offset=np.array([9]))
    assert pile["place"].tolist() == [3, 3, 4]
    assert pile["offset"].tolist() == [7, 8, 9]
    assert len(Pile()["place"]) == 0
