"""Messages that stores kept: what became of them, by small histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fakes.histories import History, at
from fakes.judging import findings_in, judged
from kaput.analysis.questions.order import by_key
from kaput.errors import EvidenceError
from kaput.evidence.findings_parts import KeptFindings


def _history(**stores: bool) -> History:
    """Ten messages of an idempotent producer, acknowledged and stored."""
    history = History(producers=[{"topic": "orders", "idempotence": True}], stores=stores or {"local": True})
    for seq in range(10):
        history.acked(0, seq, seq)
    return history


def _kept(history: History, *seqs: int, store: str = "local", **more: Any) -> History:
    for seq in seqs:
        history.sent(0, seq, None, "kept", partition=None).kept(0, seq, store, **more)
    return history


def _fates(kept: KeptFindings | None) -> tuple[int, ...]:
    assert kept is not None
    return kept.kept, kept.delivered_later, kept.waiting, kept.lost_in_store, kept.unclear


def test_message_delivered_by_a_replay_is_no_anomaly(tmp_path: Path) -> None:
    """The run held, and its headline says so."""
    history = _kept(_history(), 10, 11)
    for seq in (10, 11):
        history.stored(seq, 0, seq).replayed(0, seq, 4012 + seq * 10)
    findings = judged(history, tmp_path)
    assert findings.verdict == "held", findings.reasons
    assert _fates(findings.kept) == (2, 2, 0, 0, 0)
    assert (findings.totals.sent, findings.totals.acked, findings.totals.kept) == (12, 10, 2)
    assert findings.reasons == [
        "12 messages sent, 10 acknowledged, 2 kept by a store, all delivered later: "
        "every acknowledged message is stored."
    ]
    assert findings.kept is not None
    (store,) = findings.kept.stores
    for told in (findings.kept, store):
        assert told.kept_for_max_s == pytest.approx(4.109)
        assert told.kept_for_p50_s == pytest.approx(4.1, abs=0.05)
    assert (findings.kept.in_doubt, findings.kept.stored_and_left, findings.kept.without_row) == (0, 0, 0)
    assert {a.name for a in findings.anomalies if a.count} == set()


def test_message_left_in_a_store_is_waiting(tmp_path: Path) -> None:
    """Also where another store had it and has it no more; of the run it is one message."""
    history = _kept(_history(local=True, far=True), 10)
    history.kept(0, 10, "far").add("left_in_store", store="far", producer=0, seq=10)
    findings = judged(history, tmp_path)
    assert findings.verdict == "held", findings.reasons
    assert _fates(findings.kept) == (1, 0, 1, 0, 0)
    assert findings.kept is not None
    assert [(one.store, one.kind, one.read, one.kept, one.waiting) for one in findings.kept.stores] == [
        ("far", "sqlite", True, 1, 1),
        ("local", "sqlite", True, 1, 1),
    ]


def test_message_in_log_and_store_counts_as_delivered(tmp_path: Path) -> None:
    """A replay would send it once more: the findings count such messages."""
    history = _kept(_history(), 10, 11).stored(10, 0, 10).stored(11, 0, 11)
    findings = judged(history.add("left_in_store", store="local", producer=0, seq=11), tmp_path)
    assert _fates(findings.kept) == (2, 2, 0, 0, 0)
    assert findings.kept is not None and findings.kept.stored_and_left == 1


def test_message_in_neither_log_nor_store_is_lost_in_store(tmp_path: Path) -> None:
    """A violation, with a cause and a story."""
    findings = judged(_kept(_history(), 10, 11).stored(10, 0, 10), tmp_path)
    (lost,) = findings.anomaly("lost-in-store")
    assert (lost.count, lost.permitted, lost.causes) == (1, 0, {"store": 1})
    assert findings.lost_in_store == 1
    assert lost.examples[0].story == (
        "producer 0's message 11 was kept by a store, and neither a store nor orders has it"
    )
    assert findings.verdict == "violated"
    assert findings.reasons[0] == (
        "1 message that a store had kept is stored nowhere, and no store has it: the store had confirmed it."
    )


def test_message_lost_after_an_acked_replay_is_attributed_to_kafka(tmp_path: Path) -> None:
    """The store rightly does not have it any more; of two others it is the store that lost them."""
    findings = judged(_kept(_history(), 10, 11, 12).replayed(0, 10, 50), tmp_path / "three")
    (lost,) = findings.anomaly("lost-in-store")
    assert (lost.count, lost.causes) == (3, {"kafka": 1, "store": 2})
    assert findings.kept is not None and findings.kept.lost_after_replay == 1
    alone = judged(_kept(_history(), 10).replayed(0, 10, 50), tmp_path / "alone")
    assert alone.verdict == findings.verdict == "violated"
    assert findings.reasons[:2] == [
        "2 messages that a store had kept are stored nowhere, and no store has them: "
        "the store had confirmed them.",
        "1 message that a store had kept is stored nowhere, and no store has it: "
        "Kafka had acknowledged it to a replay.",
    ]
    assert [one.story.partition(" and neither ")[2] for one in lost.examples] == [
        "a store nor orders has it: Kafka had acknowledged it to a replay",
        *["a store nor orders has it"] * 2,
    ]


@pytest.mark.parametrize("listed", [{"local": False}, {"far": True}, {"far": False, "local": False}])
def test_unlisted_store_is_inconclusive(listed: dict[str, bool], tmp_path: Path) -> None:
    """Inconclusive, and not a loss; so is one of which the manifest does not speak."""
    findings = judged(_kept(_history(**listed), 10), tmp_path)
    assert _fates(findings.kept) == (1, 0, 0, 0, 1)
    assert findings.verdict == "inconclusive" and "1 kept message was not found" in findings.reasons[0]


def test_replay_may_have_used_an_unread_partition(tmp_path: Path) -> None:
    """The one that the producer sent it to was read to its end: that proves nothing."""
    history = _history()
    history.topics = [{"name": "orders", "partitions": 2}]
    history.sent(0, 10, None, "kept").kept(0, 10)
    history.add("end_offsets", topic="orders", partition=0, end_offset=10, drained_to=10)
    history.add("end_offsets", topic="orders", partition=1, end_offset=5, drained_to=4)
    findings = findings_in(history.write(tmp_path))
    assert _fates(findings.kept) == (1, 0, 0, 0, 1)


def test_kept_message_without_a_store_row_still_counts(tmp_path: Path) -> None:
    """Its producer was killed before it could write which store: it counts all the same."""
    findings = judged(_history().sent(0, 10, None, "kept"), tmp_path)
    assert _fates(findings.kept) == (1, 0, 0, 1, 0)
    assert findings.kept is not None and findings.kept.without_row == 1


def test_a_message_in_the_store_of_a_killed_producer_is_kept(tmp_path: Path) -> None:
    """Its outcome is unknown; stored, it is recovered as well."""
    history = _history().sent(0, 10, None, "unknown").kept(0, 10, in_doubt=True).stored(10, 0, 10)
    findings = judged(history, tmp_path)
    assert _fates(findings.kept) == (1, 1, 0, 0, 0)
    assert (findings.totals.kept, findings.totals.unknown, findings.recovered) == (0, 1, 1)


@pytest.mark.parametrize(("in_doubt", "permitted"), [(True, 1), (False, 0)])
def test_replay_duplicate_of_an_in_doubt_message_is_permitted(
    in_doubt: bool, permitted: int, tmp_path: Path
) -> None:
    """Of an idempotent producer, too; without doubt no replay may make one."""
    history = _kept(_history(), 10, in_doubt=in_doubt).stored(10, 0, 10).stored(11, 0, 10)
    findings = judged(history, tmp_path)
    (found,) = findings.anomaly("duplicate")
    assert (found.count, found.permitted, found.causes) == (1, permitted, {"replay": 1})
    assert findings.kept is not None and findings.kept.duplicates == 1
    assert findings.verdict == ("held" if permitted else "violated")


@pytest.mark.parametrize(
    ("offset", "ms", "permitted"),
    [(10, 50, 0), (10, 12.1, 0), (10, 12, 1), (12, 50, 1), (10, 11.9, 1), (10, 5, 1), (10, None, 1)],
)
def test_two_copies_made_by_replays_are_a_violation(
    offset: int, ms: float | None, permitted: int, tmp_path: Path
) -> None:
    """Both are behind the only copy of message 11, so that replays had begun; not if that copy is behind
    them, if producers were still sending, or if no replay had it acknowledged.
    """
    history = _kept(_history(), 10, 11, in_doubt=True).stored(offset, 0, 11)
    for other in {10, 11, 12} - {offset}:
        history.stored(other, 0, 10)
    if ms is not None:
        history.replayed(0, 10, ms).replayed(0, 11, ms)
    findings = judged(history, tmp_path)
    (found,) = findings.anomaly("duplicate")
    assert (found.count, found.permitted) == (1, permitted)
    told = "replays stored it more than once, though each is sent once"
    assert (told in findings.reasons[0]) == (not permitted)


def test_order_that_a_replay_breaks_is_permitted(tmp_path: Path) -> None:
    """Of kept messages alone: message 12 is late as well, and its producer is idempotent."""
    history = _kept(_history(), 10, 11).acked(0, 13, 10).stored(11, 0, 12).sent(0, 12, 11)
    history.stored(12, 0, 10).stored(13, 0, 11)
    findings = judged(history, tmp_path)
    (found,) = findings.anomaly("reordered")
    assert (found.count, found.permitted, found.causes) == (3, 2, {"replay": 2})
    assert findings.verdict == "violated"


@pytest.mark.parametrize(
    ("key", "permitted"), [(2, 1), ("producer", 0), ("seq", 2), ("none", 2)], ids=["two", "one", "own", "no"]
)
def test_replay_must_keep_key_order_of_an_ordered_producer(key: Any, permitted: int, tmp_path: Path) -> None:
    """Messages 10 and 11 come behind 12: with two keys 10 and 12 have the same one."""
    history = _history()
    history.producers[0] |= {"on-failure": {"stores": ["local"], "ordered": True}, "key": key}
    history.acked(0, 12, 10)
    _kept(history, 10, 11).stored(11, 0, 10).stored(12, 0, 11)
    findings = judged(history, tmp_path)
    (found,) = findings.anomaly("reordered")
    assert (found.count, found.permitted, found.causes) == (2, permitted, {"replay": 2})
    assert ("(`ordered`)" in findings.reasons[0]) == (permitted < 2)


def test_late_replayed_messages_are_checked_by_key() -> None:
    """Message 4 comes behind 6, which has its key (of two), 3 behind both, which have not."""
    names = ("producer", "seq", "place", "offset", "n")
    rows = [(0, 6, 7, 0, 1), (0, 4, 7, 1, 1), (0, 3, 7, 2, 1), (0, 8, 7, 3, 1), (1, 9, 7, 4, 1)]
    copies = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Int64), orient="row")
    late = copies.filter(pl.col("seq").is_in([3, 4])).with_columns(replay=True)
    found = by_key(late, copies, {0: 2})
    assert dict(found.select("seq", "by_key").iter_rows()) == {3: False, 4: True}
    assert by_key(late, copies, {0: 0})["by_key"].to_list() == [True, True]
    assert by_key(late, copies, {1: 2})["by_key"].to_list() == [False, False]
    assert by_key(late.with_columns(replay=False), copies, {0: 2})["by_key"].to_list() == [False, False]


def test_a_refused_message_that_is_stored_is_a_ghost(tmp_path: Path) -> None:
    """And one that is not stored is none."""
    history = _history().sent(0, 10, None, "refused").sent(0, 11, None, "refused").stored(10, 0, 11)
    findings = judged(history, tmp_path)
    assert (findings.totals.refused, findings.ghost, findings.phantom) == (2, 1, 0)
    assert findings.verdict == "violated"


def test_a_message_in_a_store_that_was_never_sent_is_malformed(tmp_path: Path) -> None:
    rows = {
        "kept": {"tries": 1, "in_doubt": False, "at_ns": at(1)},
        "replayed": {"topic": "orders", "replay": 1, "at_ns": at(1)},
        "left_in_store": {},
    }
    for table, more in rows.items():
        history = _history().add(table, producer=0, seq=77, store="local", **more)
        with pytest.raises(EvidenceError) as told:
            judged(history, tmp_path / table)
        assert str(told.value) == f"table {table}: message 77 of producer 0 in store local was never sent"


def test_duplicate_store_row_is_malformed(tmp_path: Path) -> None:
    """Two rows are malformed; in two stores it may be."""
    history = _kept(_history(), 10).kept(0, 10, "far").kept(0, 10)
    with pytest.raises(EvidenceError, match="table kept: message 10 of producer 0 in store local has 2 rows"):
        judged(history, tmp_path)


def test_run_without_stores_has_no_kept_block(tmp_path: Path) -> None:
    """No block, no table of what is in stores."""
    history = History()
    history.acked(0, 0, 0)
    assert judged(history, tmp_path).kept is None
    assert not (tmp_path / "analysis" / "stores").exists()


def test_how_much_was_in_stores_over_time(tmp_path: Path) -> None:
    """What they took, less what replays delivered."""
    history = _kept(_history(), 10, 11, 12, at_ns=at(1000))
    for seq in (10, 11):
        history.stored(seq, 0, seq).replayed(0, seq, 5000)
    judged(history, tmp_path)
    rows = pl.read_parquet(tmp_path / "analysis" / "stores").rows()
    assert rows == [(at(1000), 3), (at(5000), 1)]
