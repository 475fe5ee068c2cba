"""Runs on hand-written rows: what becomes one, how runs are cut at each other, how long nothing came."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

from kaput.analysis.engine.sums import Sum, times
from kaput.analysis.questions import latency
from kaput.analysis.runs.cutting import MESSAGES, PLACES, covered, meeting, overlay, single
from kaput.analysis.runs.encoding import encoded
from kaput.analysis.runs.run import NULL, Ints, encode, in_order, kept, packed, unpacked, whole_us
from kaput.analysis.runs.tables import TableRows

ROWS = pl.DataFrame(
    {
        "producer": [0, 0, 0, 0, 1, None, None],
        "seq": [0, 1, 2, 5, 6, None, None],
        "place": [7] * 7,
        "offset": [10, 11, 12, 13, 14, 15, 16],
        "intact": [True] * 5 + [False] * 2,
        "at_ns": [1, 2, 2, 3, 4, 5, 4],
    }
)


def runs(*rows: tuple[int, int, int, int, int]) -> pl.DataFrame:
    """Runs of (producer, seq, place, offset, n)."""
    return pl.DataFrame(list(rows), schema=["producer", "seq", "place", "offset", "n"], orient="row")


def test_run_ends_where_another_column_changes() -> None:
    """Another step of seq, another producer, no identity; and a time that goes down."""
    found = encode(ROWS, ["producer", "place", "intact"], ["at_ns"])
    assert found.select("producer", "seq", "offset", "n", "at_ns_first", "at_ns_last").rows() == [
        (0, 0, 10, 3, 1, 2),
        (0, 5, 13, 1, 3, 3),
        (1, 6, 14, 1, 4, 4),
        (None, None, 15, 1, 5, 5),
        (None, None, 16, 1, 4, 4),
    ]
    assert encode(ROWS, ["producer", "place", "intact"])["n"].to_list() == [3, 1, 1, 2]
    assert encode(ROWS.clear(), ["producer"], ["at_ns"]).is_empty()


def test_overlay_splits_runs_at_each_others_borders() -> None:
    """Along seqs of one producer; offsets go along."""
    one, other = runs((0, 0, 7, 10, 6)), runs((0, 2, 7, 90, 2), (1, 3, 7, 50, 4))
    parts, whole = overlay([one, other], MESSAGES)
    assert parts.select("seq", "offset", "n", "part").rows() == [(0, 10, 2, 0), (2, 12, 2, 1), (4, 14, 2, 2)]
    assert whole.drop("part").rows() == other.rows()
    assert whole["part"].to_list() == [1, 4]


def test_overlay_with_a_point_and_a_run_without_place() -> None:
    """A run of no rows marks a point."""
    lone = runs((0, 0, 7, 10, 4)).vstack(runs((0, 9, 7, 0, 3)).with_columns(place=pl.lit(None, pl.Int64)))
    parts, point = overlay([lone, runs((0, 0, 7, 11, 0))], PLACES)
    assert parts.select("seq", "offset", "n").rows() == [(0, 10, 1), (1, 11, 3)]
    assert point.is_empty()


@pytest.mark.parametrize("width", [3, 2**31, 2**62])
def test_packed_columns_have_the_order_of_rows(width: int) -> None:
    """Also where three columns do not fit into 64 bits."""
    chance = Random(width)
    rows = [tuple(chance.choice([-width, 0, 1, width]) for _ in range(3)) for _ in range(100)]
    found = packed(np.array(rows, np.int64).T).tolist()
    ranks = {row: rank for rank, row in enumerate(sorted(set(rows)))}
    distinct = sorted(set(found))
    assert [distinct.index(number) for number in found] == [ranks[row] for row in rows]
    assert packed([np.empty(0, np.int64)] * 2).tolist() == []


def test_covered_ranges_are_merged() -> None:
    """Overlaps and neighbours are one; single makes rows of them."""
    found = covered(runs((0, 0, 7, 10, 4), (1, 0, 7, 12, 4), (2, 0, 7, 16, 1), (0, 9, 7, 18, 1)), PLACES)
    assert found.select("place", "offset", "n").rows() == [(7, 10, 7), (7, 18, 1)]
    assert single(found)["offset"].to_list() == [*range(10, 17), 18]


def _counted(durations_ns: Ints) -> pl.DataFrame:
    return latency.counted(np.zeros(len(durations_ns), np.int64), whole_us(durations_ns))


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_percentiles_are_those_of_the_single_durations(count: int) -> None:
    """Counted by microsecond, added up over tasks, and drawn from that."""
    random = Random(count)
    us = [random.randrange(50) for _ in range(count)]
    durations = np.array([1000 * u + 999 for u in us], np.int64)
    halves = [_counted(durations[: count // 2]), _counted(durations[count // 2 :])]
    counts = Sum(("us",), ("times",)).of(pl.concat(halves))
    found = latency.percentiles(counts["us"].to_numpy(), counts["times"].to_numpy())
    assert found is not None
    assert found[0] == pytest.approx(np.percentile(us, [50, 99, 99.9]).tolist())
    assert found[1] == max(us)


def test_negative_duration_rounds_towards_zero() -> None:
    """Clocks of two machines may differ."""
    assert _counted(np.array([-2_500, 2_500, -999], np.int64)).rows() == [(0, -2, 1), (0, 0, 1), (0, 2, 1)]


def test_no_durations_have_no_percentiles() -> None:
    none = np.empty(0, np.int64)
    assert latency.percentiles(none, none) is None


@pytest.mark.parametrize(
    "values", [[5, 7, 2**40, 9], [1, NULL, 3, 4], [NULL, NULL, NULL, NULL], [0, 1, 2, 3]]
)
def test_per_row_values_survive_packing(values: list[int]) -> None:
    """Near each other or far apart, with and without rows of which there is nothing."""
    array, first, n = np.array([99, *values]), np.array([1, 2]), np.array([1, 3])
    runs = pl.DataFrame({"n": n}).with_columns(kept("at", array, first, n))
    found, rows = unpacked(runs, ["at"])
    assert rows["at"].tolist() == values
    assert found.rows() == [(1, 0), (3, 1)]


def test_packing_no_runs_yields_no_values() -> None:
    """Also where there are rows."""
    none = np.empty(0, np.int64)
    runs = pl.DataFrame({"n": none}).with_columns(kept("at", np.array([1, 2]), none, none))
    assert unpacked(runs, ["at"])[1]["at"].tolist() == []


def test_runs_overlapping_others_are_selected() -> None:
    """Those that share a row with any of them, on the same keys."""
    mine = runs((0, 0, 7, 10, 4), (0, 4, 7, 14, 4), (0, 8, 8, 10, 4))
    assert meeting(mine, runs((5, 5, 7, 13, 1), (5, 5, 8, 14, 9)), PLACES).rows() == [(0, 0, 7, 10, 4)]
    assert meeting(mine, mine.clear(), PLACES).is_empty()


@pytest.mark.parametrize("step", [1, 10**9])
def test_values_are_counted(step: int) -> None:
    """By counting within a narrow range, else by sorting."""
    found, often = times(np.array([3, 1, 3, 2, 3]) * step)
    assert (found.tolist(), often.tolist()) == ([step, 2 * step, 3 * step], [1, 1, 3])


def test_nearly_sorted_rows_are_not_sorted() -> None:
    """To sort costs more than a run more; members' steps are always put in order."""
    frame = pl.DataFrame({"producer": [0] * 200, "seq": [*range(100), 50, *range(100, 199)]})
    runs_of = [
        encoded(TableRows("left_in_store", rows, {"store": 0}), frame) for rows in (frame, frame[95:150])
    ]
    assert [each.runs["seq"].to_list() for each in runs_of] == [[0, 50, 100], [50, 95]]
    assert in_order(frame, ["producer", "seq"])["seq"].is_sorted()


def test_run_does_not_cross_blocks() -> None:
    """All rows of a block's messages go to the same task; records without an identity are in none."""
    frame = pl.DataFrame({"seq": [*[None] * 9, *range(65_530, 65_540)], "offset": range(19)})
    found = encoded(TableRows("outputs", frame, {"producer": 0, "group": 0, "place": 7}), frame)
    assert found.runs.select("seq", "n", "block").rows() == [(None, 9, None), (65_530, 6, 0), (65_536, 4, 1)]
