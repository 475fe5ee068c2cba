"""Losses by what a contract asks of them, and which of several explains the least."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

from kaput.analysis.causes.attribution import CIRCUMSTANCES
from kaput.analysis.engine.asking import RunTotals
from kaput.analysis.engine.question import Reported, To
from kaput.analysis.questions import losses
from kaput.analysis.questions.losses import LOSS, rank, with_acknowledged_epoch
from kaput.analysis.runs.columns import COMMITTED
from kaput.analysis.runs.names import Names
from kaput.verdict.facts import Circumstances, Loss

_LOSS: dict[str, Any] = dict.fromkeys(LOSS, False) | {
    **{"producer": 3, "seq": 100, "topic": 0, "place": 7, "offset": 50, "cause": "deposed-leader"},
    **{"fault": "1-kill", "done_ns": 30, "later_ns": 20, "later_epoch": 5, "lost": True},
    **{"holder_producer": 9, "holder_seq": 100},
}


def _rows(*more: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([_LOSS | one for one in more])


def test_losses_are_counted_by_kind() -> None:
    """With the first and the last acknowledgement of each, and those after the heal; another fault or
    circumstance is another kind.
    """
    some = [{}, {"done_ns": 10}, {"done_ns": 40}, {"fault": "2-kill"}, {LOSS[-1]: True}, {"producer": 4}]
    kinds = losses.kinds(_rows(*some), {"1-kill": 30, "2-kill": None})
    found = kinds.sort("messages", "producer", "fault", LOSS[-1])
    counts = found["messages", "after_heal", "first_ns", "last_ns"].rows()
    assert counts == [(1, 0, 30, 30)] * 3 + [(3, 1, 10, 40)]
    assert found.columns == [*LOSS, "fault", "messages", "after_heal", "first_ns", "last_ns"]


def test_losses_acked_by_a_deposed_leader() -> None:
    """At the moment of the election counts as after it, at that of the heal not; offsets used twice, once."""
    rows = _rows(
        *(
            {},
            {"done_ns": 20},
            {"done_ns": 19, "offset": 51},
            {"done_ns": 60},
            {"done_ns": 62, "lost": False},
        ),
        *({"done_ns": 61, "offset": 52, "holder_producer": None}, {"cause": "unexplained", "later_epoch": 6}),
        # Its own record is still there, though not visible: nothing was overwritten.
        {"holder_producer": 3, "lost": False, "done_ns": 63},
        {"cause": "leader-restarted", "later_epoch": 8, "fault": "2-pause", "done_ns": 99},
    )
    found = losses.deposed(rows, {"1-kill": 60, "2-pause": None}).sort("later_epoch").to_dicts()
    first = {"place": 7, "later_epoch": 5, "fault": "1-kill", "acks": 6, "lost": 5, "after_election": 5}
    second = {"place": 7, "later_epoch": 8, "fault": "2-pause", "acks": 1, "lost": 1, "after_election": 1}
    assert found == [
        first | {"after_heal": 1, "offsets_twice": 2, "first_ns": 19, "last_ns": 62},
        second | {"after_heal": 0, "offsets_twice": 1, "first_ns": 99, "last_ns": 99},
    ]


@pytest.mark.parametrize(
    ("worse", "better", "acks_1"),
    [
        ({"cause": "unexplained"}, {"cause": "leader-restarted"}, set()),
        ({"cause": "leader-restarted"}, {"cause": "deposed-leader"}, set()),
        ({"cause": "deposed-leader"}, {"cause": "unclean-election"}, set()),
        ({"cause": "unclean-election"}, {"cause": "acks-0"}, set()),
        ({"cause": "unexplained", "isr_unsynced": True}, {"cause": "leader-restarted"}, set()),
        ({}, {"isr_unsure": True}, set()),
        ({"isr_unsure": True}, {"isr_unsynced": True}, set()),
        ({"isr_unsure": True, "isr_unsynced": True}, {"isr_unsynced": True}, set()),
        ({"isr_unsynced": True}, {"producer": 4, "leaders_known": True}, {3}),  # leaders not known: perhaps
        ({"cause": "leader-restarted", "leaders_known": True}, {"cause": "leader-restarted"}, {3}),
        (
            {"cause": "leader-restarted"},
            {"cause": "leader-restarted", "leaders_known": True, "unsynced": True},
            {3},
        ),
    ],
)
def test_loss_rank_by_cause_and_acks(worse: dict[str, Any], better: dict[str, Any], acks_1: set[int]) -> None:
    """By its cause first, then by what its acknowledgement asked for."""
    if "producer" in better:
        acks_1 = acks_1 | {better["producer"]}
    low, high = _rows(worse, better).select(rank(acks_1)).to_series().to_list()
    assert low < high


def test_loss_rows_become_verdict_facts() -> None:
    """Its producer, topic and cause, how many, and all circumstances in their places."""
    names = Names(["payments", "orders"], [], [])
    every = _rows(
        {"topic": 1, "messages": 7}, *({"topic": 0, "messages": 1, name: True} for name in CIRCUMSTANCES)
    )
    first, *others = losses.losses_of(every, names, "messages")
    assert first == Loss(3, "orders", "deposed-leader", 7, Circumstances(*[False] * len(CIRCUMSTANCES)))
    assert [one.topic for one in others] == ["payments"] * len(CIRCUMSTANCES)
    for name, one in zip(CIRCUMSTANCES, others, strict=True):
        assert one.known == Circumstances(**{known: known == name for known in CIRCUMSTANCES})
    assert losses.loss_of(every.row(0, named=True), names).count == 1


def test_empty_loss_table_has_the_full_schema() -> None:
    """The same columns and types, with rows or without."""
    names = Names(["orders"], ["billing"], ["m1"])
    whole = _rows({"attempt_ns": 1, "ack_epoch": 4, "later_start": 50, "place": 0})
    full, empty = losses.table(whole, names), losses.empty_table(names)
    assert full.schema == empty.schema
    assert empty.is_empty()
    assert full.row(0, named=True) == {
        **{"producer": 3, "seq": 100, "topic": "orders", "partition": 0, "offset": 50, "attempt_ns": 1},
        **{"done_ns": 30, "cause": "deposed-leader", "fault": "1-kill", "ack_epoch": 4, "later_epoch": 5},
        **{"later_start": 50},
    }


def _stretch(seq: int, **more: Any) -> dict[str, Any]:
    same = {"producer": 1, "seq": seq, "topic": 0, "place": 7, "offset": seq, "n": 1, "row": seq}
    fate = {"outcome": "acked", "stored": 1, "unread": False, "uncommitted": False, "borne_out": True}
    return same | fate | {"state": None, "first_seq": None} | more


def test_acks_and_transactions_that_need_an_explanation() -> None:
    """What the log contradicts, what is lost, and what a committed transaction lacks; nothing else."""
    gone = {"stored": 0, "borne_out": False}
    rows = [
        _stretch(0),
        _stretch(1, borne_out=False),  # it is somewhere else
        _stretch(2, borne_out=False, offset=None),
        _stretch(3, **gone, offset=None),
        _stretch(4, **gone, outcome="unknown"),
        _stretch(5, **gone, unread=True),
        _stretch(6, **gone, outcome="unknown", state=COMMITTED, first_seq=6),
        _stretch(7, **gone, outcome="unknown", state=COMMITTED),
        _stretch(8, borne_out=False, state=COMMITTED, first_seq=6),
        _stretch(9, state=COMMITTED, first_seq=6),
        _stretch(10, **gone, state=COMMITTED, first_seq=6),
        _stretch(11, borne_out=False, outcome="unknown"),
    ]
    schema = {"state": pl.Int64, "first_seq": pl.Int64}
    stretches = pl.DataFrame(rows, schema_overrides=schema)
    times = {"attempts": np.arange(12), "dones": np.arange(12) + 50}
    stretches = stretches.with_columns(
        epoch=0,
        logged=1,
        done_ns_first="seq",
        part="seq",
        delivered_0=pl.lit(0),
        delivered_1=pl.col("seq") == 5,
    )
    stretches = stretches.with_columns(pl.col("delivered_1").cast(pl.Int64))
    copies = pl.DataFrame({"part": [0, 10, 10]})  # in another cluster
    messages: Any = SimpleNamespace(stretches=stretches, times=times, copies=copies)
    _, found = losses.Losses().of_messages(messages)
    assert isinstance(found, To) and found.table == "contradicted_acks"
    told = found.rows.select("seq", "lost", "first_seq").rows()
    assert told == [
        *((1, False, None), (3, True, None), (5, False, None), (6, False, 6)),
        *((8, False, None), (10, True, 6)),
    ]
    assert found.rows.filter("seen")["seq"].to_list() == [5, 10]
    assert found.rows["dones_from"].to_list() == [51, 53, 55, 56, 58, 60]


def test_losses_and_loss_window_of_each_fault() -> None:
    """The window is from its first lost acknowledgement to its last; one alone takes no time."""
    counts = ("messages", "after_heal", "first_ns", "last_ns")
    columns = ("producer", "topic", "cause", *LOSS[3:], "fault", *counts)
    rows = [
        {
            **dict.fromkeys(columns, False),
            **_LOSS_ROW,
            "fault": fault,
            **dict(zip(counts, of, strict=True)),
        }
        for fault, *of in (
            ("one", 2, 2, 5_000_000, 7_000_000),
            ("one", 1, 1, 9_000_000, 9_000_000),
            ("two", 1, 0, 4, 4),
        )
    ]
    kinds = pl.DataFrame(rows).select(columns)
    reaches = [SimpleNamespace(fault=SimpleNamespace(id=id_)) for id_ in ("one", "two", "none")]
    names = Names(["orders"], [], [])
    sums = {"losses": kinds, "removed": pl.DataFrame()}
    run: Any = SimpleNamespace(sums=sums, reaches=reaches, names=names, totals=RunTotals())
    reported = [part for part in losses.Losses().report(run) if isinstance(part, Reported)]
    faults = [part for part in reported if part.section == "fault"]
    assert [(one.topic, one.count) for one in reported[0].fields["losses"]] == [
        ("orders", 2),
        ("orders", 1),
        ("orders", 1),
    ]
    fields = ("lost", "first_lost_ack_ns", "last_lost_ack_ns", "loss_window_ms", "lost_after_heal")
    assert [(key, *(found[name] for name in fields)) for _, key, found in faults] == [
        ("one", 3, 5_000_000, 9_000_000, 4.0, 3),
        ("two", 1, 4, 4, 0.0, 0),
        ("none", 0, None, None, None, 0),
    ]


_LOSS_ROW = {"producer": 3, "topic": 0, "cause": "deposed-leader"}


def test_acknowledgement_counts_in_the_epoch_of_its_own_copy() -> None:
    """A retry stored the message again under a later leader, which acknowledged it."""
    schema = {"epoch": pl.Int64}
    stretches = pl.DataFrame(
        [_stretch(0, place=3, offset=7) | {"part": 0, "logged": 2, "epoch": 4}], schema_overrides=schema
    )
    copies = pl.DataFrame({"part": [0, 0], "place": [3, 3], "offset": [5, 7], "epoch": [4, 6]})
    messages: Any = SimpleNamespace(stretches=stretches, copies=copies)
    assert with_acknowledged_epoch(messages)["epoch"].to_list() == [6]
