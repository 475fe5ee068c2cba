"""Runs on hand-written rows: what becomes one, how runs are cut at each other, how long nothing came."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

from kaput.analysis.questions import latency, silence
from kaput.analysis.runs.cutting import MESSAGES, PLACES, covered, cut, edges, single
from kaput.analysis.runs.run import encode

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


def test_a_run_ends_where_anything_but_seq_and_offset_changes() -> None:
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
    assert encode(ROWS, ["producer", "place"], also=np.array([1]))["n"].to_list() == [1, 2, 1, 1, 2]
    assert encode(ROWS.clear(), ["producer"], ["at_ns"]).is_empty()


def test_runs_are_cut_at_each_others_borders() -> None:
    """Along seqs of one producer; offsets go along."""
    one, other = runs((0, 0, 7, 10, 6)), runs((0, 2, 7, 90, 2), (1, 3, 7, 50, 4))
    at = edges([one, other], MESSAGES)
    assert cut(one, at, MESSAGES).select("seq", "offset", "n").rows() == [(0, 10, 2), (2, 12, 2), (4, 14, 2)]
    assert cut(other, at, MESSAGES).rows() == other.rows()


def test_a_point_cuts_and_a_run_without_place_is_left_out() -> None:
    """A run of no rows marks a point."""
    lone = runs((0, 0, 7, 10, 4)).vstack(runs((0, 9, 7, 0, 3)).with_columns(place=pl.lit(None, pl.Int64)))
    at = edges([lone, runs((0, 0, 7, 11, 0))], PLACES)
    assert cut(lone, at, PLACES).select("seq", "offset", "n").rows() == [(0, 10, 1), (1, 11, 3)]


def test_what_is_covered_is_told_in_stretches_as_long_as_can_be() -> None:
    """Overlaps and neighbours are one; single makes rows of them."""
    found = covered(runs((0, 0, 7, 10, 4), (1, 0, 7, 12, 4), (2, 0, 7, 16, 1), (0, 9, 7, 18, 1)), PLACES)
    assert found.select("place", "offset", "n").rows() == [(7, 10, 7), (7, 18, 1)]
    assert single(found)["offset"].to_list() == [*range(10, 17), 18]


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_percentiles_are_those_of_the_single_durations(count: int) -> None:
    """Counted by microsecond, added up over tasks, and drawn from that."""
    random = Random(count)
    us = [random.randrange(50) for _ in range(count)]
    sends = pl.DataFrame({"outcome": ["acked"] * count, "attempt_ns": [7] * count})
    sends = sends.with_columns(pl.Series("done_ns", [7 + 1000 * u + 999 for u in us]))
    halves = [latency.acknowledged(sends.head(count // 2)), latency.acknowledged(sends.slice(count // 2))]
    found = latency.percentiles(latency.counted(pl.concat(halves)))
    assert found is not None
    assert found[0] == pytest.approx(np.percentile(us, [50, 99, 99.9]).tolist())
    assert found[1] == max(us)


def test_nothing_has_no_percentiles() -> None:
    """Not even zeros."""
    assert latency.percentiles(pl.DataFrame({"us": [], "times": []})) is None


def test_the_longest_silence_is_between_two_ticks() -> None:
    """By stream, and by partition over all producers; from the first attempt to the last that is known."""
    ms = 1_000_000
    rows = [(0, 0, 5), (0, 10, 12), (0, 300, 310), (1, 0, 100), (1, 400, 405), (0, 500, None)]
    sends = pl.DataFrame(
        [
            (p, 7, a * ms, None if d is None else d * ms, "unknown" if d is None else "acked")
            for p, a, d in rows
        ],
        schema=["producer", "place", "attempt_ns", "done_ns", "outcome"],
        orient="row",
    )
    ticks = silence.together([silence.ticks(sends.head(3)), silence.ticks(sends.tail(3))])
    spans = silence.spans(sends)
    by_stream = silence.longest(silence.silences(ticks, spans, silence.STREAM), silence.STREAM)
    assert sorted(by_stream.select("producer", "from_ns", "to_ns").rows()) == [
        (0, 12 * ms, 310 * ms),
        (1, 100 * ms, 405 * ms),
    ]
    by_place = silence.longest(silence.silences(ticks, spans, ["place"]), ["place"])
    assert by_place.select("from_ns", "to_ns").rows() == [(100 * ms, 310 * ms)]
