"""Fates and how they are added up, and what is on record twice, on a few rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from fakes.histories import History
from fakes.judging import judged
from fakes.mirror_histories import HERE, THERE, sent_and_mirrored, two_clusters
from kaput.analysis.engine.question import Check, Reported
from kaput.analysis.questions import duplicate_rows, fates
from kaput.analysis.questions.duplicate_rows import DuplicateRows
from kaput.analysis.questions.fates import Fates
from kaput.core import TopicPartition
from kaput.errors import AccountingError, EvidenceError
from kaput.report.sentences import arithmetic_sentence

_STRETCH = {
    **{"producer": 3, "outcome": "acked", "stored": 1, "n": 2, "unread": False, "uncommitted": False},
    "delivered_0": 0,
}


@pytest.mark.parametrize(
    ("changed", "stored", "copies"),
    [
        ({"stored": 0}, "0", 0),
        ({}, "1", 2),
        ({"stored": 2}, "n", 4),
        ({"stored": 3}, "n", 6),
        ({"stored": 0, "unread": True}, "unread", 0),
        ({"stored": 0, "uncommitted": True}, "uncommitted", 0),
        ({"stored": 0, "unread": True, "uncommitted": True}, "unread", 0),
    ],
)
def test_fate_by_number_of_stored_copies(changed: dict[str, Any], stored: str, copies: int) -> None:
    """Or why that is not known; for a group as well."""
    stretches = pl.DataFrame([_STRETCH | changed])
    assert fates.fates(stretches).rows() == [(3, "acked", stored, 2, copies)]
    assert fates.group_fates(stretches, 0).rows() == [(0, "acked", stored, "0", 2)]


@pytest.mark.parametrize(("times", "delivered"), [(0, "0"), (1, "1"), (2, "n"), (7, "n")])
def test_fate_by_number_of_deliveries(times: int, delivered: str) -> None:
    """To a group that was handed nothing, one copy, or several."""
    stretches = pl.DataFrame([_STRETCH | {"delivered_4": times}])
    assert fates.group_fates(stretches, 4).rows() == [(4, "acked", "1", delivered, 2)]


def _run(found: dict[tuple[str, str], int], of_group: int, rows: int = 10) -> Any:
    """(outcome, stored): how many; of a group that has so many fates; of so many messages that were sent."""
    sums = {
        "log": pl.DataFrame({"records": [20], "foreign": [1]}),
        "away": pl.DataFrame(schema={"n": pl.Int64}),
        "removed": pl.DataFrame(),
        "fates": pl.DataFrame(
            [(0, outcome, stored, n, n) for (outcome, stored), n in found.items()],
            schema=["producer", "outcome", "stored", "n", "copies"],
            orient="row",
        ),
        "group_fates": pl.DataFrame(
            [(0, "acked", "1", "1", of_group)],
            schema=["group", "outcome", "stored", "delivered", "n"],
            orient="row",
        ),
    }
    sent = SimpleNamespace(tables={"sends": SimpleNamespace(rows=rows)})
    ends = {"bills": (7, 7)}
    return SimpleNamespace(
        sums=sums,
        given=SimpleNamespace(evidence=sent, groups=["billing"], ends=ends, scenario=None),
        groups=[],
        partitions=SimpleNamespace(ends={"orders": 7}),
        totals=SimpleNamespace(counted=len),
    )


@pytest.mark.parametrize(
    ("found", "of_group", "what"),
    [
        ({("acked", "1"): 10}, 10, None),
        ({("acked", "1"): 9}, 10, "fates add up to 9"),
        ({("acked", "1"): 10}, 11, "fates of group billing add up to 11"),
        ({("acked", "1"): 8, ("mislaid", "1"): 2}, 10, "outcomes add up to 8"),
    ],
)
def test_fates_must_add_up_to_the_rows(
    found: dict[tuple[str, str], int], of_group: int, what: str | None
) -> None:
    """What is not names the sum and both numbers."""
    run = _run(found, of_group)
    if what is None:
        Fates().after_messages(run)
        return
    with pytest.raises(AccountingError) as raised:
        Fates().after_messages(run)
    assert str(raised.value) == f"the {what}, but 10 messages were sent"


def test_totals_are_derived_from_fates() -> None:
    """Each number counts messages of another kind."""
    found = {
        **{("acked", "0"): 1, ("acked", "1"): 20, ("failed", "n"): 300, ("unknown", "unread"): 4_000},
        **{("acked", "unread"): 50_000, ("unknown", "uncommitted"): 600_000},
    }
    sections = [part.fields for part in Fates().report(_run(found, 0)) if isinstance(part, Reported)]
    totals = next(fields["totals"] for fields in sections if "totals" in fields)
    assert (totals.sent, totals.acked, totals.failed, totals.unknown) == (654_321, 50_021, 300, 604_000)
    assert (totals.stored_messages, totals.unread, totals.uncommitted) == (320, 54_000, 600_000)
    (facts,) = [fields for fields in sections if "duplicates" in fields]
    assert (facts["sent"], facts["unread"], facts["duplicates"]) == (654_321, 54_000, {0: 300})


def test_fates_must_match_the_anomaly_cases() -> None:
    """What was stored several times is a case of each anomaly that it is."""
    found = {
        **{("acked", "0"): 1, ("acked", "n"): 20, ("failed", "1"): 300, ("failed", "n"): 4_000},
        **{("unknown", "1"): 50_000, ("unknown", "n"): 600_000, ("failed", "0"): 7_000_000},
    }
    checks = {
        part.what: (part.one, part.other, part.how)
        for part in Fates().report(_run(found, 0))
        if isinstance(part, Check)
    }
    case = ("fate", "case")
    assert checks == {
        "duplicate": (604_020, len("duplicate"), case),
        "recovered": (650_000, len("recovered"), case),
        "ghost": (4_300, len("ghost"), case),
        "lost": (1, len("lost"), ("fate", "case")),
    }


def _named(**rows: dict[str, int]) -> Any:
    """A run with a row in some of the tables of what is there twice, or was never sent."""
    sums = {
        name: pl.DataFrame([rows[name]] if name in rows else [], schema=dict.fromkeys(kind.columns, pl.Int64))
        for name, kind in DuplicateRows.sums.items()
    }
    names = SimpleNamespace(stores=["outbox"], located={9: TopicPartition("orders", 1)}.__getitem__)
    return SimpleNamespace(sums=sums, names=names)


_TWICE = {"producer": 3, "seq": 7, "times": 2}
_IN_STORE = {"store": 0, **_TWICE}


@pytest.mark.parametrize(
    ("table", "row", "sentence"),
    [
        ("doubled_sends", _TWICE, "sends: message 7 of producer 3 has more than one row"),
        ("doubled_transactions", _TWICE, "transactions: message 7 of producer 3 is of more than one"),
        ("doubled_outputs", _TWICE, "outputs: message 7 of producer 3 has 2 rows with the same input"),
        ("doubled_kept", _IN_STORE, "kept: message 7 of producer 3 in store outbox has 2 rows"),
        (
            "doubled_log",
            {"place": 9, "offset": 5, **_TWICE},
            "log: orders/1 offset 5 is there 2 times with the same message (producer 3, seq 7)",
        ),
    ],
)
def test_duplicate_evidence_row_is_rejected(table: str, row: dict[str, int], sentence: str) -> None:
    """The table, the message, and how often; nothing is refused without such a row."""
    DuplicateRows().after_messages(_named())
    with pytest.raises(EvidenceError) as raised:
        DuplicateRows().after_messages(_named(**{table: row}))
    assert str(raised.value) == f"table {sentence}"


def test_smallest_duplicate_and_its_count() -> None:
    """One alone, and how often; what has no name is none."""
    seqs = [8, 5, 8, 4, 5, 5, None, None]
    rows = pl.DataFrame({"producer": 3, "seq": seqs, "part": [2, 1, 2, 0, 1, 1, 3, 3]})
    assert duplicate_rows._least(rows, ["producer", "seq"]).rows() == [(3, 5, 3)]


@pytest.mark.parametrize(
    ("begins", "config", "holes"),
    [
        (0, {}, "2 markers of transactions"),
        (0, {"cleanup.policy": "compact"}, None),
        (None, {}, None),
    ],
)
def test_aborted_messages_and_markers_are_neither_stored_nor_lost(
    tmp_path: Path, begins: int | None, config: dict[str, Any], holes: str | None
) -> None:
    """Four of eight are committed; the log has all of them, and a marker for each of the two transactions."""
    topics = [{"name": "orders", "config": config}]
    history = History(producers=[{"topic": "orders", "acks": "all"}], topics=topics)
    for seq in range(8):
        offset = seq + seq // 4
        if seq < 4:
            history.acked(0, seq, offset)
        else:
            history.hidden(0, seq, offset)
    history.transaction(0, 0, 3).transaction(1, 4, 7, "aborted")
    history.add("end_offsets", topic="orders", partition=0, end_offset=10, drained_to=10, start_offset=begins)
    history.read_to_end = lambda: history  # type: ignore[method-assign]
    found = judged(history, tmp_path)
    sums = found.high_watermark_arithmetic
    assert (sums.acked, sums.end_offsets, sums.holes, found.lost) == (8, 10, 2, 0)
    assert arithmetic_sentence(found).endswith(
        "the end offsets also count 4 records that readers are not given and "
        f"{holes or '2 offsets without a record (markers of transactions, or what was removed)'}; "
        "4 acknowledged messages are of transactions that were not committed."
    )
    assert found.high_watermark_arithmetic.markers == ({"": 2} if holes else {})
    (held,) = [reason for reason in found.reasons if "no acknowledged message is lost" in reason]
    assert held.endswith(" is lost, and 4 are visible to every reader.")


def test_copies_that_readers_are_not_given_are_not_taken_off(tmp_path: Path) -> None:
    """Of an aborted transaction of a mirror, whose markers are in dc2."""
    history = sent_and_mirrored(two_clusters(), 0, 1, 2, sent=3)
    history.stored(4, 0, 2, **THERE, visible=False)
    for where, end in ((HERE, 3), (THERE, 6)):
        place = {**where, "topic": "orders", "partition": 0}
        history.add("end_offsets", **place, end_offset=end, drained_to=end, start_offset=0)
    history.read_to_end = lambda: history  # type: ignore[method-assign]
    found = judged(history, tmp_path)
    assert arithmetic_sentence(found) == (
        "3 acknowledged minus 6 in the end offsets of all clusters (without 3 mirrored copies) gives -3 "
        "lost; the exact count is 0: the end offsets also count 1 record that readers are not given and "
        "2 markers of transactions in dc2."
    )


def test_leaders_of_other_topics_are_counted(tmp_path: Path) -> None:
    """Partitions that got another leader; not those that were without one for a time."""
    history = History().acked(0, 0, 0).led(1, 0, -5).led(2, 1, 3)
    for partition, then in ((0, 2), (1, 2), (2, 1)):
        own = {"topic": "__consumer_offsets", "partition": partition}
        history.led(1, 0, -5, **own).led(-1, 1, 3, **own).led(then, 2, 4, **own)
    found = judged(history, tmp_path)
    assert found.led_elsewhere == {"__consumer_offsets": 2}
    assert [one.topic for one in found.leader_changes] == ["orders"]
