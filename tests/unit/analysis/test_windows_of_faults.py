"""What was sent, affected and lost within the windows of faults, on a few rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from kaput.analysis.engine.spells import DONE, FAILED, LONG, PRODUCERS, WAITING, silences_by_place
from kaput.analysis.facts.leader_history import PartitionState
from kaput.analysis.facts.serving import Serving
from kaput.analysis.questions import fault_windows
from kaput.analysis.questions.fault_windows import UNKNOWN_PLACE, FaultWindow, FaultWindows
from kaput.analysis.questions.silences import end_of_silence
from kaput.core import TopicPartition
from kaput.evidence.fault_rows import FaultRow

S = 1_000_000_000
# Topic 0 has places 7 and 8, topic 1 has place 9, which the fault did not hit.
WINDOW = FaultWindow("f", 100, {7: 150, 8: 180}, {0: 180}, 130, 160)


def _sends(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """Rows of topic, place, attempt, outcome's time, outcome."""
    names = ("topic", "place", "attempt_ns", "done_ns")
    schema = {**dict.fromkeys(names, pl.Int64), "outcome": pl.String}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((0, 7, 99, 300, "acked"), None),  # attempted before the effect
        ((0, 7, 100, 149, "acked"), 0),  # in time
        ((0, 7, 100, 150, "acked"), 1),  # the acknowledgement that ended the silence was late
        ((0, 7, 149, 120, "failed"), 1),
        ((0, 7, 149, None, "unknown"), 1),
        ((0, 7, 149, None, "acked"), 0),  # when it came is not known
        ((0, 7, 150, 300, "acked"), None),  # the silence of its partition is over
        ((0, 8, 150, 300, "acked"), 1),  # that of the other one is not
        ((1, 9, 120, 300, "failed"), None),  # not hit
        ((0, None, 170, None, "failed"), 1),  # its topic still has one
        ((0, None, 180, None, "failed"), None),
        ((1, None, 120, None, "failed"), None),
        ((0, None, 120, 300, "acked"), None),  # acknowledged, but without a partition: not counted
    ],
)
def test_message_in_the_window_of_its_partition(row: tuple[Any, ...], expected: int | None) -> None:
    """None: not sent in it; 1: affected."""
    place = UNKNOWN_PLACE if row[1] is None else row[1]
    found = fault_windows.counts(_sends(row), [WINDOW]).rows()
    assert found == ([] if expected is None else [("f", place, 1, expected)])


def test_window_without_partitions_affects_no_sends() -> None:
    """As that of a fault that only lost something."""
    window = FaultWindow("f", 100, {}, {}, 130, 160)
    sends = _sends((0, 7, 150, 159, "acked"), (0, 7, 150, None, "failed"))
    assert fault_windows.counts(sends, [window]).rows() == []
    assert fault_windows.loss_counts(sends, [window]).rows() == [("f", 2, 1)]
    assert window.span is None


@pytest.mark.parametrize(
    ("name", "span", "wanted"),
    [
        ("attempt_ns", (100, 180), True),  # until the last of its partitions
        ("attempt_ns", (130, 160), True),
        ("done_ns", (130, 160), True),
        ("done_ns", (100, 180), False),
        ("other", (130, 160), False),
    ],
)
def test_row_groups_read_for_a_fault_window(name: str, span: tuple[int, int], wanted: bool) -> None:
    """Attempts in either window, and outcomes in that of the losses."""
    extents: Any = SimpleNamespace(meets=lambda column, within: (column, within) == (name, span))
    assert FaultWindows(windows=[WINDOW]).wants(extents) is wanted


def _spells(*silences: tuple[int, int, int]) -> pl.DataFrame:
    """Of each place: long waits from 0 to 100 s, and acknowledged all the time but in its silences."""
    names = ("group", "producer", "place", "kind", "first_ns", "last_ns")
    rows = []
    for place in sorted({one[0] for one in silences}):
        rows.extend((PRODUCERS, 0, place, kind, 0, 100 * S) for kind in (WAITING, LONG))
        begin = 0
        for _, from_s, to_s in sorted(one for one in silences if one[0] == place):
            rows.append((PRODUCERS, 0, place, DONE, begin, from_s * S))
            begin = to_s * S
        rows.append((PRODUCERS, 0, place, DONE, begin, 100 * S))
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")


@pytest.mark.parametrize(
    ("effective_s", "healed_s", "end_s"),
    [
        (8, 30, 14),  # the first of two
        (10, 30, 14),
        (12, 30, 14),  # it began before the effect and spans it
        (14, 30, 26),  # the first one was over
        (8, 10, None),  # the heal came before it
        (8, 11, 14),
        (26, None, None),
        (20, None, 26),  # never healed
    ],
)
def test_silence_of_a_partition_after_a_fault(
    effective_s: int, healed_s: int | None, end_s: int | None
) -> None:
    """Place 7 is silent from 10 to 14 s and from 20 to 26 s; place 8 is of no matter."""
    silences = silences_by_place(_spells((7, 10, 14), (7, 20, 26), (8, 9, 90)), S)
    healed = None if healed_s is None else healed_s * S
    assert end_of_silence(silences.get(7, []), effective_s * S, healed) == (
        None if end_s is None else end_s * S
    )


def test_what_was_attempted_last_is_in_a_silence_that_ended_with_the_load() -> None:
    """Attempts at 2 and 3 s are the last, and nothing is acknowledged any more."""
    names = ("group", "producer", "place", "kind", "first_ns", "last_ns")
    rows = [(PRODUCERS, 0, 7, kind, S, 3 * S) for kind in (WAITING, FAILED)]
    spells = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    assert end_of_silence(silences_by_place(spells, S).get(7, []), S, None) == 3 * S + 1


def _run(**sums: pl.DataFrame) -> Any:
    """orders/0 (place 7) is silent from 10 to 14 s, orders/1 (8) never; bills/0 (9) from 30 to 35 s."""
    places = {7: TopicPartition("orders", 0), 8: TopicPartition("orders", 1), 9: TopicPartition("bills", 0)}
    losses = pl.DataFrame(
        [("lost", 2, 130, 160), ("lost", 1, 120, None), ("kill", 4, 50, 60)],
        schema={"fault": pl.String, **dict.fromkeys(("messages", "first_ns", "last_ns"), pl.Int64)},
        orient="row",
    )
    elected, not_elected = SimpleNamespace(epoch=1), None
    of: dict[str, Any] = {
        "kill": (9 * S, 20 * S, {places[7]: elected, places[8]: elected}, []),
        "pause": (9 * S, 20 * S, {places[8]: not_elected}, [places[7]]),
        "lost": (40 * S, 50 * S, {}, []),
        "none": (40 * S, 50 * S, {places[8]: not_elected}, []),
        "unproven": (None, None, {}, []),
    }
    reaches = [
        SimpleNamespace(
            fault=FaultRow(id_, "kill", "broker 1", (1,), 0, since, until, True, ""),
            places=led,
            hit=[*led, *followed],
        )
        for id_, (since, until, led, followed) in of.items()
    ]
    codes = {place: code for code, place in places.items()}
    spells = _spells((7, 10, 14), (9, 30, 35))
    return SimpleNamespace(
        reaches=reaches,
        serving=Serving(),
        given=SimpleNamespace(asked_by_clients=lambda _: None),
        leader_history=SimpleNamespace(changes=codes, before=lambda *_: PartitionState(leader=1)),
        names=SimpleNamespace(code=codes.__getitem__, located=places.__getitem__, topics=["orders", "bills"]),
        first_acks={("kill", 7): 15 * S, ("kill", 8): 11 * S},
        silences=silences_by_place(spells, S),
        sums={"losses": losses, "service_spells": spells} | sums,
    )


def test_window_ends_with_the_silence_or_with_the_first_ack_of_the_new_leader() -> None:
    """Of each partition that was hit; one that was neither silent nor led by another has no window. A fault
    that only lost something has a window of losses, and one without a time has nothing.
    """
    kill = {7: 14 * S, 8: 11 * S}, {0: 14 * S}
    asked = FaultWindows().before_sends(_run())
    assert asked is not None and list(asked.windows) == [
        FaultWindow("kill", 9 * S, *kill, 50, 60),
        FaultWindow("pause", 9 * S, {7: 14 * S}, {0: 14 * S}),
        FaultWindow("lost", 40 * S, {}, {}, 120, 160),
    ]
    assert asked.before_sends(_run()) is None
    first = FaultWindows().before_places(_run())
    assert list(first.windows) == [
        FaultWindow("kill", 9 * S, *kill),
        FaultWindow("pause", 9 * S, {7: 14 * S}, {0: 14 * S}),
    ]


def test_affected_and_lost_shares_of_each_fault() -> None:
    """Sums over the partitions, lost ones included; shares where there is something to divide by."""
    windows = pl.DataFrame(
        [("kill", 7, 8, 3), ("kill", 8, 2, 0)], schema=["fault", "place", "sent", "affected"], orient="row"
    )
    losses = pl.DataFrame({"fault": ["lost", "kill"], "loss_sent": [5, 0], "loss_acked": [6, 0]})
    lost = pl.DataFrame({"fault": ["kill"], "place": [8], "n": [2]})
    run = _run(fault_windows=windows, loss_windows_sent=losses, lost_by_fault=lost)
    told = list(FaultWindows().report(run))
    names = (
        *("affected", "sent_in_window", "affected_share", "acked_in_loss_window", "sent_in_loss_window"),
        "lost_share",
    )
    of_faults = {key: fields for section, key, fields in told if section != "findings"}
    assert {key: tuple(fields[name] for name in names) for key, fields in of_faults.items()} == {
        "kill": (5, 10, 0.5, 0, 0, None),
        "pause": (0, 0, None, 0, 0, None),
        "lost": (0, 0, None, 6, 5, 0.5),
    }
    claims = [claim for section, _, fields in told if section == "findings" for claim in fields["claims"]]
    assert [(c.fault, c.topic, c.partition, c.to_ns, c.figures) for c in claims] == [
        ("kill", "orders", 0, 14 * S, {"sent": 8, "affected": 3}),
        ("kill", "orders", 1, 11 * S, {"sent": 2, "affected": 2}),
        ("pause", "orders", 0, 14 * S, {"sent": 0, "affected": 0}),
    ]


def test_late_and_lost_message_is_counted_once() -> None:
    """A lost message that was late as well is counted with the sends."""
    lost = _sends(
        (0, 7, 120, 140, None), (0, 7, 120, 155, None), (0, 8, 120, 140, None), (0, 8, 99, 140, None)
    )
    assert sorted(fault_windows.affected_by_loss(WINDOW, lost)) == [(7, 1), (8, 1)]
    sends = _sends((0, 7, 120, 140, "acked"), (0, 7, 120, 155, "acked"), (0, 8, 120, 140, "acked"))
    assert sorted(fault_windows.counts(sends, [WINDOW]).rows()) == [("f", 7, 2, 1), ("f", 8, 1, 0)]
