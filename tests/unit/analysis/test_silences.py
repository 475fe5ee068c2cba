"""Times without acknowledgements, of streams and around faults, on a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.facts.leader_history import Change
from kaput.analysis.questions import silence
from kaput.analysis.questions.silence import STREAM, Silences
from kaput.core import TopicPartition

S = 1_000_000_000
PLACES = {7: TopicPartition("orders", 0), 8: TopicPartition("orders", 1), 9: TopicPartition("bills", 0)}


def _frame(names: tuple[str, ...], *rows: tuple[int | None, ...], unit: int = S) -> pl.DataFrame:
    """Rows of producer, place and times in seconds."""
    timed = [(*row[:2], *(None if at is None else int(at * unit) for at in row[2:])) for row in rows]
    return pl.DataFrame(timed, schema=dict.fromkeys(names, pl.Int64), orient="row")


def _spells(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return _frame((*STREAM, "first_ns", "last_ns"), *rows)


def _sent(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """begin, end, and last acknowledgement."""
    return _frame((*STREAM, "begin_ns", "end_ns", "last_ack_ns"), *rows)


def _reach(fault: str, since: float | None, until: float | None, *places: int) -> Any:
    of = SimpleNamespace(id=fault, effective_ns=None if since is None else int(since * S))
    restored = None if until is None else int(until * S)
    return SimpleNamespace(fault=of, restored_ns=restored, places=[PLACES[code] for code in places])


def _run(sent: pl.DataFrame, spells: pl.DataFrame, *reaches: Any, **changes: list[Change]) -> Any:
    codes = {place: code for code, place in PLACES.items()}
    service = dict.fromkeys(("group", "place", "kind", "first_ns", "last_ns"), pl.Int64)
    return SimpleNamespace(
        sums={"sent": sent, "spells": spells, "service_spells": pl.DataFrame(schema=service)},
        reaches=list(reaches),
        names=SimpleNamespace(code=codes.__getitem__, located=PLACES.__getitem__),
        given=SimpleNamespace(ended_ns=100 * S, faults=[]),
        leader_history=SimpleNamespace(
            changes={PLACES[int(code[1:])]: found for code, found in changes.items()}
        ),
        rebalances=SimpleNamespace(found=[]),
    )


def _elected(at: float) -> list[Change]:
    return [Change(int(at * S), "leader", 2, 1, None, 1)]


def _told(run: Any) -> tuple[list[tuple[Any, ...]], Any, dict[str, tuple[float, str | None]]]:
    longest: list[tuple[Any, ...]] = []
    most, faults = None, {}
    for section, key, fields in Silences().report(run):
        if section == "findings":
            found = fields["unavailability"]
            longest = [(u.producer, u.topic, u.partition, u.longest_ms, u.ended_by) for u in found]
        elif section == "facts":
            most = fields["unavailable_ms"]
        else:
            faults[str(key)] = (fields["unavailable_ms"], fields["unavailable_ended_by"])
    return longest, most, faults


def test_end_cause_of_each_streams_longest_silence() -> None:
    """Nothing where it ended with the stream's load, or is shorter than a second; others' are no matter."""
    sent = _sent((0, 7, 0, 9, 5), (1, 7, 0, 90, 90), (0, 8, 0, 90, 90), (0, 9, 0, 3, 2), (3, 7, 0, 50, None))
    spells = _spells(
        *((0, 7, 0, 5), (1, 7, 0, 40), (1, 7, 41, 80), (1, 7, 80.9, 90), (0, 8, 0, 88.75)),
        *((0, 8, 90, 90), (0, 9, 0, 0.5), (0, 9, 1.5, 2)),
    )
    longest, most, faults = _told(_run(sent, spells, p7=_elected(40.5), p8=_elected(1)))
    assert longest == [
        *((0, "bills", 0, 1000.0, "unknown"), (0, "orders", 0, 4000.0, None)),
        *((0, "orders", 1, 1250.0, "unknown"), (1, "orders", 0, 1000.0, "election")),
        (3, "orders", 0, 50_000.0, None),  # nothing of it was acknowledged
    ]
    assert (most, faults) == (None, {})


@pytest.mark.parametrize(
    ("reach", "told"),
    [
        (_reach("f", 10, 60, 7), (20_000.0, "election")),
        (_reach("f", 15, 60, 7), (15_000.0, "election")),  # from the fault on
        (_reach("f", 30, 60, 7), (3_000.0, "unknown")),  # what ended then was before
        (_reach("f", 10, 60, 7, 8), (40_000.0, "unknown")),  # the longest of all that it reached
        (_reach("f", 55, None, 7), (1_000.0, None)),  # nobody was acknowledged any more
        (_reach("f", 50, 55, 7), (3_000.0, "unknown")),  # what begins at the end is no more of it
        (_reach("f", 44, 51, 7), None),  # nor where there was none before
        (_reach("f", 58, 59, 9), None),
        (_reach("f", None, 60, 7), None),
        (_reach("f", 10, 60), None),
    ],
)
def test_silences_around_a_fault(reach: Any, told: tuple[float, str | None] | None) -> None:
    """In the partitions that it reached, of all producers together, until everything was as before."""
    sent = _sent((0, 7, 0, 56, 55), (1, 7, 0, 56, 51), (0, 8, 0, 90, 90), (0, 9, 0, 58, 58))
    spells = _spells(
        *((0, 7, 0, 10), (0, 7, 30, 40), (1, 7, 43, 51), (0, 7, 54, 55), (0, 8, 0, 20)),
        *((0, 8, 60, 90), (0, 9, 0, 50)),
    )
    _, most, faults = _told(_run(sent, spells, reach, p7=_elected(29), p9=_elected(59)))
    assert faults == ({} if told is None else {"f": told})
    assert most == (None if told is None else told[0])


def test_every_silence_of_a_stream() -> None:
    """Between two spells, and at either end; those of no length too."""
    spans = _sent((0, 7, 5, 20, 20), (1, 7, 6, 21, 20))
    spells = _spells((0, 7, 5, 9), (0, 7, 12, 13), (1, 7, 8, 10))
    found = silence.silences(spells, spans, STREAM).sort("producer", "from_ns", "to_ns")
    told = [(producer, from_ns / S, to_ns / S) for producer, _, from_ns, to_ns in found.rows()]
    assert told == [(0, 5, 5), (0, 9, 12), (0, 13, 20), (1, 6, 8), (1, 10, 21)]
    together = silence.silences(spells, spans, ["place"]).sort("from_ns", "to_ns")
    assert [(a / S, b / S) for _, a, b in together.rows()] == [(5, 5), (10, 12), (13, 21)]


def test_ties_for_the_longest_silence() -> None:
    """The earliest, and there that of the first place."""
    rows = [(8, 5, 9), (7, 5, 9), (7, 1, 4), (9, 6, 10)]
    gaps = pl.DataFrame(rows, schema=["place", "from_ns", "to_ns"], orient="row")
    assert silence.longest(gaps, []).rows() == [(7, 5, 9)]
    assert sorted(silence.longest(gaps, ["place"]).rows()) == [(7, 5, 9), (8, 5, 9), (9, 6, 10)]


def test_streams_selected_for_a_second_pass() -> None:
    """Those without a silence as long as spells are wide, and those of faults of which that is true."""
    sent = _sent((0, 7, 0, 50, 50), (1, 7, 0, 50, 50), (0, 8, 0, 50, 50), (0, 9, 0, 50, 50))
    spells = _spells(
        *((0, 7, 0, 20), (0, 7, 24, 50), (1, 7, 0, 50), (0, 8, 0, 10), (0, 8, 15, 50)),
        *((0, 9, 0, 10), (0, 9, 17, 50)),
    )
    run = _run(sent, spells)
    run.work = SimpleNamespace(width_ns=5 * S + 7)
    asked = Silences().before_sends(run)
    assert asked is not None and asked.streams is not None
    assert asked.width_ns == (5 * S + 7) // 10
    assert sorted(asked.streams.rows()) == [(0, 7), (0, 8), (1, 7)]
    run.work.width_ns = 5 * S
    again = Silences().before_sends(run)
    assert again is not None and again.streams is not None
    assert sorted(again.streams.rows()) == [(0, 7), (1, 7)]
    # The one fault comes after the long silence of place 9, the other in it, the third after everything.
    run.reaches = [_reach("late", 20, 30, 9), _reach("in it", 11, 30, 8, 9), _reach("never", 60, 70, 9)]
    third = Silences().before_sends(run)
    assert third is not None and third.streams is not None
    assert sorted(third.streams.rows()) == [(0, 7), (1, 7)]
    pause = _spells((0, 9, 0, 10), (0, 9, 17, 22), (0, 9, 23, 50))
    run.sums["spells"] = pl.concat([spells.filter(pl.col("place") != 9), pause])
    fourth = Silences().before_sends(run)
    assert fourth is not None and fourth.streams is not None
    assert sorted(fourth.streams.rows()) == [(0, 7), (0, 9), (1, 7)]
    run.work.width_ns = silence.EXACT_NS
    assert Silences().before_sends(run) is None


def test_narrow_spells_take_the_place_of_wide_ones() -> None:
    """Of the streams that were asked for; the others keep theirs."""
    run = SimpleNamespace(
        sums={
            "spells": _spells((0, 7, 0, 9), (1, 7, 0, 9), (0, 8, 0, 9)),
            "narrow_spells": _spells((0, 7, 0, 2), (0, 7, 3, 9)),
        }
    )
    streams = pl.DataFrame({"producer": [0], "place": [7]})
    Silences(streams=streams, width_ns=10).after_sends(run)  # type: ignore[arg-type]
    assert sorted(run.sums["spells"].rows()) == sorted(
        _spells((1, 7, 0, 9), (0, 8, 0, 9), (0, 7, 0, 2), (0, 7, 3, 9)).rows()
    )


@pytest.mark.parametrize(("run_s", "width_ms"), [(None, 10), (0, 10), (200, 10), (201, 10.05), (3_600, 180)])
def test_spells_of_a_long_run_are_wider(run_s: float | None, width_ms: float) -> None:
    """So that there are no more than 20,000 of a stream."""
    assert silence.width_ns(None if run_s is None else run_s * S) == width_ms * 1_000_000
    assert silence.width_ns(3_600 * S + 1) == 180_000_000
