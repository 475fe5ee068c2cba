"""Reordered messages: whether their partition changed its leader between attempt and outcome, by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from fakes.histories import History
from fakes.judging import counts, judged
from kaput.analysis.engine.asking import RunTotals
from kaput.analysis.engine.question import Reported, SumPart
from kaput.analysis.facts.leader_history import Change
from kaput.analysis.questions import order
from kaput.analysis.questions.order import StorageOrder
from kaput.core import TopicPartition
from kaput.verdict.facts import Reordered

ELECTIONS = {7: [100, 200], 8: [150]}


def _late(*rows: tuple[int | None, ...]) -> pl.DataFrame:
    names = ("producer", "seq", "n", "place", "offset", "epoch", "top", "top_epoch")
    found = pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.Int64), orient="row")
    return found.with_columns(replay=False, by_key=False)


def _run(late: pl.DataFrame, across: dict[int, int] | None = None) -> Any:
    schema = {"producer": pl.Int64, "n": pl.Int64}
    rows = pl.DataFrame(list((across or {}).items()), schema=schema, orient="row")
    return SimpleNamespace(sums={"late": late, "across": rows}, totals=RunTotals())


# The stretch 10 to 12 of producer 0 in place 7, and 11 to 12 of producer 1 in place 8; 20 of producer 0 in 9.
LATE = _late((1, 11, 2, 8, 0, 3, 30, 3), (0, 10, 3, 7, 0, 3, 30, 3), (0, 20, 1, 9, 0, 3, 30, 3))


@pytest.mark.parametrize(
    ("sent", "counts"),
    [
        ((0, 10, 90, 110), True),
        ((0, 12, 99, 100), True),  # by the moment of the outcome
        ((0, 11, 100, 110), True),  # by the moment of the attempt: either may have been first
        ((0, 11, 100, 200), True),
        ((0, 11, 101, 199), False),
        ((0, 11, 110, None), True),  # the outcome is not known
        ((0, 11, 200, None), True),
        ((0, 11, 201, None), False),
        ((0, 9, 90, 110), False),
        ((0, 13, 90, 110), False),
        ((1, 11, 90, 110), False),  # its partition got its leader at 150
        ((1, 12, 90, 160), True),
        ((1, 10, 90, 160), False),
        ((0, 20, 90, 160), False),  # its partition never got another
    ],
)
def test_late_messages_in_flight_during_an_election(sent: tuple[int | None, ...], counts: bool) -> None:
    """One of their own partition, not before the attempt and not after the outcome."""
    schema = dict.fromkeys(("producer", "seq", "attempt_ns", "done_ns"), pl.Int64)
    others = [(0, 30, 0, 500), (2, 11, 0, 500), (0, 1, 0, 500)]
    rows = pl.DataFrame([sent, *others], schema=schema, orient="row")
    found = order.across(rows, LATE, ELECTIONS)
    assert found.rows() == ([(sent[0], 1)] if counts else [])


def test_messages_by_producer_and_change_of_leader() -> None:
    """Epochs that differ tell it; else the sends, of which those found there move to the other side."""
    late = _late(
        *((0, 10, 3, 7, 0, 3, 30, 4), (0, 20, 5, 7, 9, 4, 30, 4), (1, 5, 2, 7, 0, 3, 9, 3)),
        *((0, 40, 1, 7, 0, None, 50, 4), (2, 1, 6, 8, 0, 3, 9, 3)),
    )
    told = [
        *(Reordered(0, 6, False), Reordered(0, 3, True)),
        *(Reordered(1, 2, False), Reordered(2, 6, False)),
    ]
    assert _told(late) == told
    told = [Reordered(0, 2, False), Reordered(0, 7, True), Reordered(1, 2, True), Reordered(2, 6, False)]
    assert _told(late, {0: 4, 1: 2}) == told


def _told(late: pl.DataFrame, across: dict[int, int] | None = None) -> list[Reordered]:
    (facts, _, _) = StorageOrder().report(_run(late, across))
    assert isinstance(facts, Reported) and (facts.section, facts.key) == ("facts", None)
    reordered: list[Reordered] = facts.fields["reordered"]
    return reordered


def _change(at_ns: int, kind: str, led_before: int | None) -> Change:
    return Change(at_ns, kind, 1, 3, None, led_before)


def _timeline() -> Any:
    orders, bills, idle = (TopicPartition("orders", 0), TopicPartition("bills", 0), TopicPartition("idle", 0))
    return {
        orders: [_change(5, "leader", None), _change(100, "leader", 2), _change(150, "isr", 2)],
        bills: [_change(5, "leader", None)],
        idle: [_change(170, "leader", 2)],
    }


def test_sends_are_read_only_where_epochs_are_inconclusive() -> None:
    """Not where epochs differ, nor of a partition that never changed its leader."""
    codes = {TopicPartition("orders", 0): 7, TopicPartition("bills", 0): 8, TopicPartition("idle", 0): 9}
    run = _run(_late((0, 10, 3, 7, 0, 3, 30, 3), (0, 20, 3, 7, 0, 3, 30, 4), (0, 30, 3, 8, 0, 3, 40, 3)))
    run.names, run.leader_history = SimpleNamespace(code=codes.get), SimpleNamespace(changes=_timeline())
    asked = StorageOrder().before_sends(run)
    assert asked is not None and asked.open is not None
    assert asked.elections == {7: [100], 9: [170]}
    assert asked.open["seq"].to_list() == [10]
    assert asked.before_sends(run) is None
    run.sums["late"] = run.sums["late"][1:]
    assert StorageOrder().before_sends(run) is None


def test_a_message_late_in_two_places_counts_once() -> None:
    """In the first of them, also where only a part of the stretch is there."""
    late = _late((0, 12, 3, 8, 5, 3, 30, 3), (0, 10, 4, 7, 90, 3, 31, 3), (1, 12, 1, 9, 0, 3, 30, 3))
    found = order.unique_messages(late).select("producer", "seq", "n", "place", "offset", "top")
    assert sorted(found.rows()) == [
        *((0, 10, 2, 7, 90, 31), (0, 12, 2, 7, 92, 31), (0, 14, 1, 8, 7, 30)),
        (1, 12, 1, 9, 0, 30),
    ]


def test_message_late_in_two_partitions_balances(tmp_path: Path) -> None:
    """Message 1 is stored twice, in either partition behind a later one."""
    history = History(topics=[{"name": "orders", "partitions": 2}])
    history.acked(0, 1, 1).stored(1, 0, 1, partition=1).acked(0, 2, 0).acked(0, 3, 0, partition=1)
    findings = judged(history, tmp_path)
    assert counts(findings) == {"duplicate": 1, "reordered": 1}


def test_the_epoch_of_the_greatest_message_is_that_of_its_first_copy() -> None:
    """Message 9 is there twice, message 4 comes behind it, and so does 5, of which 9 is no copy."""
    names = ("producer", "seq", "place", "offset", "n", "epoch")
    rows = [
        (0, 9, 7, 0, 1, 2),
        (0, 4, 7, 1, 2, 3),
        (0, 9, 7, 3, 1, 4),
        (0, 20, 8, 0, 1, 9),
        (1, 9, 7, 9, 1, 8),
    ]
    log = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    found = order.reordered(log.with_columns(intact=True, visible=True))
    told = found.select("producer", "seq", "n", "place", "offset", "epoch", "top", "top_epoch").rows()
    assert sorted(told) == [(0, 4, 2, 7, 1, 3, 9, 2)]


def test_sends_are_requested_by_seq_range() -> None:
    """From the first of them to the last."""
    spans: list[tuple[str, Any]] = []
    extents = SimpleNamespace(meets=lambda name, span: bool(spans.append((name, span))))
    StorageOrder(LATE).wants(extents)  # type: ignore[arg-type]
    assert spans == [("seq", (10, 20))]


def test_shared_offset_does_not_hide_other_reordering() -> None:
    """Message 4 is behind 9; 20 and 21 are at one offset, so that neither is behind the other."""
    names = ("producer", "seq", "place", "offset", "n", "epoch")
    rows = [
        (0, 9, 7, 0, 1, 2),
        (0, 4, 7, 1, 1, 2),
        (0, 21, 7, 10, 1, 2),
        (0, 20, 7, 10, 1, 2),
        (0, 15, 7, 11, 1, 2),
    ]
    log = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    found = order.reordered(log.with_columns(intact=True, visible=True)).sort("seq")
    assert found.select("seq", "n", "top").rows() == [(4, 1, 9), (15, 1, 21)]


def test_only_visible_sent_copies_count() -> None:
    """Also where the log tells no epochs."""
    names = ("producer", "seq", "place", "offset", "n", "epoch")
    rows = [
        (0, 5, 7, 10, 3, None),
        (0, 90, 7, 13, 1, None),
        (None, None, 7, 14, 1, None),
        (0, 1, 7, 15, 1, None),
    ]
    log = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    log = log.with_columns(intact=True, visible=pl.Series([True, True, True, False]))
    phantoms = pl.DataFrame([(0, 6, 7, 11, 1)], schema=list(names[:-1]), orient="row")
    found = order._sent(log, phantoms).select("seq", "offset", "n").sort("offset")
    assert found.rows() == [(5, 10, 1), (7, 12, 1), (90, 13, 1)]
    none = order._sent(log, phantoms.clear()).select("seq", "offset", "n").sort("offset")
    assert none.rows() == [(5, 10, 3), (90, 13, 1)]


def test_sends_are_not_read_for_replayed_messages() -> None:
    """They are not asked for."""
    run = _run(_late((0, 10, 3, 7, 0, 3, 30, 3), (0, 20, 3, 7, 0, 3, 30, 3)))
    run.sums["late"] = run.sums["late"].with_columns(replay=pl.col("seq") == 20)
    run.names, run.leader_history = SimpleNamespace(code=lambda _: 7), SimpleNamespace(changes=_timeline())
    asked = StorageOrder().before_sends(run)
    assert asked is not None and asked.open is not None
    assert asked.open["seq"].to_list() == [10]


def test_replayed_and_key_order_messages_are_counted_separately() -> None:
    """Each kind has its own count."""
    late = _late((0, 10, 3, 7, 0, 3, 30, 3), (0, 20, 4, 7, 0, 3, 30, 3), (0, 28, 5, 7, 0, 3, 30, 3))
    late = late.with_columns(replay=pl.col("seq") >= 20, by_key=pl.col("seq") == 28)
    told = [
        *(Reordered(0, 3, False, False, False), Reordered(0, 4, False, True, False)),
        Reordered(0, 5, False, True, True),
    ]
    assert _told(late) == told


def test_key_order_compares_within_producer_and_partition() -> None:
    """Of another producer, in another partition, or behind the first copy it does not matter."""
    rows = [(0, 9, 3, 100), (1, 7, 9, 90), (0, 7, 1, 0), (0, 7, 4, 1), (0, 7, 1, 2), (0, 7, 2, 3)]
    numbers = pl.DataFrame(rows, schema=["producer", "place", "seq", "offset"], orient="row")
    copies = numbers.with_columns(n=pl.lit(1, pl.Int64))
    late = _late((0, 1, 1, 7, 2, 3, 4, 3), (0, 2, 1, 7, 3, 3, 4, 3))
    late = late.drop("by_key").with_columns(replay=True)
    found = order.by_key(late, copies, {0: 1}).sort("seq")
    assert found.select("seq", "by_key").rows() == [(1, False), (2, True)]
    others = copies.filter(pl.col("seq") != 4)
    assert not order.by_key(late, others, {0: 1})["by_key"].any()
    # Of two keys: in place 9 only one of the other key is before message 3.
    rows = [(0, 7, 5, 0), (0, 7, 4, 1), (0, 7, 2, 3), (0, 9, 8, 7), (0, 9, 3, 8)]
    numbers = pl.DataFrame(rows, schema=["producer", "place", "seq", "offset"], orient="row")
    late = _late((0, 2, 1, 7, 3, 3, 4, 3), (0, 3, 1, 9, 8, 3, 8, 3))
    late = late.drop("by_key").with_columns(replay=True)
    found = order.by_key(late, numbers.with_columns(n=pl.lit(1, pl.Int64)), {0: 2}).sort("seq")
    assert found.select("seq", "by_key").rows() == [(2, True), (3, False)]


def test_key_order_is_checked_for_kept_messages() -> None:
    """In the log of the task's own partitions, without what was never sent."""
    names = ("producer", "seq", "place", "offset", "n", "epoch", "block")
    log = pl.DataFrame([(0, 4, 7, 0, 1, 3, 0), (0, 2, 7, 1, 1, 3, 0)], schema=list(names), orient="row")
    kept = pl.DataFrame([(0, 2, 7, 1)], schema=["producer", "seq", "place", "n"], orient="row")
    places: Any = SimpleNamespace(
        log=log.with_columns(intact=True, visible=True),
        tables={"phantoms": log.clear(), "kept_copies": kept, "mirrored_copies": log.clear()},
        known=SimpleNamespace(ordered={0: 2}),
    )
    (part,) = StorageOrder().of_places(places)
    assert isinstance(part, SumPart)
    assert part.rows.select("seq", "top", "replay", "by_key").rows() == [(2, 4, True, True)]


def test_phantom_record_does_not_cause_reordering(tmp_path: Path) -> None:
    """Though its number is above those of the messages behind it."""
    history = History().acked(0, 0, 0).stored(1, 0, 9).acked(0, 1, 2)
    assert counts(judged(history, tmp_path)) == {"phantom": 1}
