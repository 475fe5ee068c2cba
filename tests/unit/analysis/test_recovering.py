"""The first acknowledgement and the first delivery after a fault, on a few rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from kaput.analysis.facts.lag import Backlog
from kaput.analysis.facts.leader_history import Epoch
from kaput.analysis.facts.reach import Election
from kaput.analysis.questions.recovery import (
    Reached,
    _lag_ended_by,
    _ms,
    _reached_partitions,
    first_acks,
    first_deliveries,
)
from kaput.core import TopicPartition

S = 1_000_000_000


def _stretches(*rows: tuple[object, ...]) -> pl.DataFrame:
    """Stretches of (part, place, epoch, row, n, done_ns_last, outcome)."""
    columns = {**dict.fromkeys(("part", "place", "epoch", "row", "n", "done_ns_last"), pl.Int64)}
    frame = pl.DataFrame(list(rows), schema={**columns, "outcome": pl.String}, orient="row")
    return frame.with_columns(stored=pl.lit(1, pl.Int64), offset=pl.lit(0, pl.Int64))


def test_message_stored_twice_counts_where_it_was_acknowledged() -> None:
    """A retry that the new leader acknowledged, of a message that the old one had stored already."""
    old = _stretches((0, 7, 3, 4, 1, 150, "acked")).with_columns(stored=pl.lit(2, pl.Int64))
    reached = Reached("f", 7, 100, 4, 110, start=20)
    assert first_acks(old.with_columns(offset=pl.lit(20, pl.Int64)), DONES, [reached]).rows() == [
        ("f", 7, 150)
    ]
    assert first_acks(old.with_columns(offset=pl.lit(19, pl.Int64)), DONES, [reached]).rows() == []


DONES = np.array([99, 100, 120, 149, 150, 200, 300, 90, 105], np.int64)


@pytest.mark.parametrize(
    ("reached", "rows", "found"),
    [
        (Reached("f", 7, 100, None, None), (0, 5), 100),  # at that moment is after it
        (Reached("f", 7, 100, None, None), (0, 1), None),
        (Reached("f", 7, 100, None, None), (1, 1), 100),
        (Reached("f", 7, 101, None, None), (0, 5), 120),
        (Reached("f", 7, 100, None, 150), (0, 7), 150),  # without its epochs, the time tells
        (Reached("f", 7, 100, None, 150), (4, 1), 150),
        (Reached("f", 7, 100, None, 90), (1, 4), 100),
        (Reached("f", 7, 100, 3, 150), (2, 4), 120),  # an election that was seen late
        (Reached("f", 7, 100, 4, 150), (2, 4), None),  # what an earlier leader stored
        (Reached("f", 8, 100, None, None), (0, 5), None),
    ],
)
def test_first_ack_after_a_fault(reached: Reached, rows: tuple[int, int], found: int | None) -> None:
    """Of its partition; by the new leader, where the epochs tell."""
    first, n = rows
    last = int(DONES[first : first + n].max())
    stretches = _stretches((0, 7, 3, first, n, last, "acked"), (1, 7, 3, 1, 1, 100, "failed"))
    told = first_acks(stretches, DONES, [reached])
    assert told.rows() == ([] if found is None else [("f", 7, found)])


def test_first_deliveries_of_several_faults() -> None:
    """Of what the new leader took, whatever its outcome; where no epoch is known nothing is reported."""
    stretches = _stretches(
        *((0, 7, 3, 0, 2, 0, "acked"), (1, 7, 4, 2, 2, 0, "unknown"), (2, 8, 9, 4, 1, 0, "acked")),
        (3, 7, 5, 5, 1, 0, "acked"),
    )
    parts = {"part": [0, 1, 2, 3, 1], "place": [7, 7, 8, 7, 9], "row": [0, 2, 6, 5, 8], "n": [2, 2, 1, 1, 1]}
    parts["offset"] = [0, 50, 50, 60, 50]
    polls = DONES
    reached = [
        *(Reached("one", 7, 100, 4, 110), Reached("two", 8, 250, 9, 260), Reached("none", 7, 100, None, 110)),
        Reached("late", 7, 500, 4, 510),
    ]
    found = first_deliveries(stretches, pl.DataFrame(parts), polls, reached)
    assert sorted(found.rows()) == [("one", 7, 120), ("two", 8, 300)]
    # Nor is a copy that the deposed leader had taken what its successor took of the same message.
    later = first_deliveries(stretches, pl.DataFrame(parts), polls, [replace(reached[0], start=51)])
    assert later.rows() == [("one", 7, 200)]


def test_sub_millisecond_durations() -> None:
    """And what the cluster saw a little before took no time."""
    assert [_ms(*times) for times in ((1_000_000, 1_400_000), (5, 5), (9, 5), (None, 5), (5, None))] == [
        *(0.4, 0.0, 0.0, None, None)
    ]


def test_acknowledgement_that_was_cleaned_away_still_counts() -> None:
    """Messages that compaction removed are no longer in the log; their offsets are those of the new leader.
    What a deposed leader acknowledged, at lower offsets, is not of its epoch.
    """
    rows = {
        "part": [0, 1, 2], "place": [7] * 3, "epoch": [None, None, 4], "row": [2, 4, 6], "n": [2, 2, 1],
        "done_ns_last": [149, 200, 300], "outcome": ["acked"] * 3, "stored": [0, 0, 1],
        "offset": [10, 20, 22],
    }  # fmt: skip
    stretches = pl.DataFrame(rows)
    reached = Reached("f", 7, 100, 4, 110, start=20, cleaned=True)
    assert first_acks(stretches, DONES, [reached]).rows() == [("f", 7, 150)]
    assert first_acks(stretches, DONES, [replace(reached, cleaned=False)]).rows() == [("f", 7, 300)]


FAULT = {"fault": "kill", "effective_ns": 10 * S, "healed_ns": 13 * S}


@pytest.mark.parametrize(("at_s", "by"), [(10.9, None), (11, "unknown"), (13, "heal")])
def test_lag_growth_below_a_second_has_no_end_cause(at_s: float, by: str | None) -> None:
    """The longest growth of all groups counts; without a time of effect or a backlog there is none."""
    fault: Any = SimpleNamespace(**FAULT, brokers=(1,), target="broker 1")
    at_ns = int(at_s * S)
    last = Backlog(1, 10 * S, None, 9, 10 * S, at_ns, at_ns + S // 2)
    assert _lag_ended_by(fault, {"g": last, "h": last._replace(grew_until_ns=10 * S)}) == by
    assert _lag_ended_by(fault, {}) is None
    fault.effective_ns = None
    assert _lag_ended_by(fault, {"g": last}) is None


@pytest.mark.parametrize(("target", "by"), [("mirror dc1->dc2", "unknown"), ("members of g", "heal")])
def test_heal_of_a_mirror_ends_no_growth_of_a_lag(target: str, by: str) -> None:
    """Though the lag stopped growing just then; that of the group's own members may."""
    fault: Any = SimpleNamespace(**FAULT, brokers=(), target=target)
    grew = Backlog(1, 10 * S, None, 9, 10 * S, 13 * S, 14 * S)
    assert _lag_ended_by(fault, {"g": grew}) == by
    moved = SimpleNamespace(**FAULT | {"fault": "move-replicas"}, brokers=(1,), target="broker 1")
    assert _lag_ended_by(moved, {"g": grew}) == "unknown", "it has no heal"  # type: ignore[arg-type]


@pytest.mark.parametrize(("resumed_s", "by"), [(12.9, "unknown"), (13, "heal"), (None, "heal")])
def test_heal_ends_no_growth_of_a_lag_if_new_leaders_served_before_it(
    resumed_s: float | None, by: str
) -> None:
    """A sample just before the heal and one just after it tell nothing of what came in between."""
    fault: Any = SimpleNamespace(**FAULT, brokers=(1,), target="broker 1")
    grew = Backlog(1, 10 * S, None, 9, 10 * S, 13 * S, 14 * S)
    resumed_ns = None if resumed_s is None else int(resumed_s * S)
    assert _lag_ended_by(fault, {"g": grew}, resumed_ns) == by


@pytest.mark.parametrize("acks_all", [True, False])
def test_partitions_searched_for_the_first_ack(acks_all: bool) -> None:
    """Under the new leader where a log tells epochs; where others were elected, not where none was."""
    one, two, three = (TopicPartition("orders", number) for number in range(3))
    faults: dict[str, dict[TopicPartition, Election | None]] = {
        "some": {one: None, two: Election(4, 150, 2), three: Election(None, 160, 3)},
        "none": {one: None, two: None},
        "unlogged": {three: Election(7, 170, 2)},
    }
    reaches = [
        SimpleNamespace(
            fault=SimpleNamespace(id=id_, effective_ns=100), places=places, elected=any(places.values())
        )
        for id_, places in faults.items()
    ]
    epochs = {two: [Epoch(3, 0), Epoch(5, 40)]}  # epoch 4 took nothing
    run: Any = SimpleNamespace(
        reaches=reaches,
        names=SimpleNamespace(code=lambda place: place.partition),
        partitions=SimpleNamespace(logged={one: {}, two: {3: (0, 9), 5: (40, 50)}}),
        terms=lambda place: SimpleNamespace(acks_all=acks_all),
        leader_history=SimpleNamespace(epochs=epochs),
        cleaned=lambda place: place == two,
    )
    assert list(_reached_partitions(run)) == [
        Reached("some", 1, 100, 4, 150, 40, cleaned=True, lowest=10 if acks_all else None),
        Reached("some", 2, 100, None, 160),
        *(Reached("none", 0, 100, None, None), Reached("none", 1, 100, None, None)),
        Reached("unlogged", 2, 100, None, 170),
    ]
