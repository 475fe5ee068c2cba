"""What merges where both clusters were written to, and which keys conflict."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fakes.histories import History
from fakes.judging import judged
from fakes.mirror_histories import HERE, THERE, two_clusters
from kaput.analysis.questions.mirrored_copies import conflicts, merged
from kaput.report.run_report import to_text


def _both_written(key: int | None = 2) -> History:
    """Producer 0 sends to dc1, producer 1 to dc2 from its third message on. The mirror copies messages 2 and
    3 of producer 0 only after these have come.
    """
    history = two_clusters()
    spec = {"topic": "orders", "acks": "all"} | ({} if key is None else {"key": key})
    history.producers = [spec, spec]
    history.drained = {"dc1->dc2": True}
    for seq in range(4):
        history.sent(0, seq, seq, **HERE).stored(seq, 0, seq, **HERE)
    for offset, (producer, seq) in enumerate([(0, 0), (0, 1), (1, 2), (1, 3), (0, 2), (0, 3)]):
        history.stored(offset, producer, seq, **THERE)
    for seq in range(4):
        where = THERE if seq > 1 else HERE
        history.sent(1, seq, seq if seq > 1 else seq + 4, **where)
    for seq in (0, 1):
        history.stored(seq + 4, 1, seq, **HERE).stored(seq + 6, 1, seq, **THERE)
    return history


def test_copies_behind_target_only_messages_are_merged(tmp_path: Path) -> None:
    """Four copies are merged, both keys conflict, and a copy is last in each; nothing is an anomaly."""
    findings = judged(_both_written(), tmp_path)
    (mirror,) = findings.mirrors
    assert (mirror.merged, mirror.conflicting_keys, mirror.own_last_keys) == (4, 2, 0)
    assert findings.verdict == "held" and not any(a.count for a in findings.anomalies), findings.reasons
    said = " ".join(to_text(findings, tmp_path).plain.split())
    assert "dc1->dc2 appended 4 records after messages that only dc2 has" in said
    assert "in dc2, the last message is from dc1 for 2 of them, and its own for 0" in said


def test_aborted_copies_are_not_merged(tmp_path: Path) -> None:
    """Neither are they merged, nor is a message less alone for them."""
    history = _both_written()
    history.mirrors[0]["exactly-once"] = True
    history.stored(8, 0, 2, visible=False, **THERE).stored(6, 1, 2, visible=False, **HERE)
    (mirror,) = judged(history, tmp_path).mirrors
    assert (mirror.merged, mirror.conflicting_keys) == (4, 2)


def test_records_without_keys_do_not_conflict(tmp_path: Path) -> None:
    """Records merge all the same."""
    (mirror,) = judged(_both_written(key=None), tmp_path).mirrors
    assert (mirror.merged, mirror.conflicting_keys, mirror.own_last_keys) == (4, None, None)


def test_copies_before_the_first_target_write_are_not_merged(tmp_path: Path) -> None:
    """As in a planned switch."""
    history = two_clusters()
    history.producers = [{"topic": "orders", "acks": "all", "key": 2}]
    for seq in range(4):
        where = HERE if seq < 2 else THERE
        history.sent(0, seq, seq, **where).stored(seq, 0, seq, **where)
        if seq < 2:
            history.stored(seq, 0, seq, **THERE)
    (mirror,) = judged(history, tmp_path).mirrors
    assert (mirror.merged, mirror.conflicting_keys) == (0, 0)


def test_messages_known_to_the_source_are_not_merged(tmp_path: Path) -> None:
    """dc1's first message was copied to dc2, so that what dc2 wrote later, and was copied back, knew it."""
    history = two_clusters()
    history.mirrors.append({"from": "dc2", "to": "dc1", "topics": ["orders"]})
    history.producers = [{"topic": "orders", "acks": "all", "key": 1}]
    history.sent(0, 0, 0, **HERE).stored(0, 0, 0, **HERE).stored(0, 0, 0, **THERE)
    history.sent(0, 1, 1, **THERE).stored(1, 0, 1, **THERE).stored(1, 0, 1, **HERE)
    assert [mirror.merged for mirror in judged(history, tmp_path).mirrors] == [0, 0]


def _runs(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    """(producer, seq, offset, n) in one partition."""
    frame = pl.DataFrame(rows, schema=["producer", "seq", "offset", "n"], orient="row")
    return frame.with_columns(place=pl.lit(7, pl.Int64), source=pl.lit("a"), target=pl.lit("b"))


def test_copy_run_is_split_at_the_first_target_only_message() -> None:
    """What is before it was there first."""
    found = merged(_runs((0, 10, 100, 10), (0, 20, 90, 5)), _runs((1, 0, 104, 1)))
    assert found.select("seq", "offset", "n").rows() == [(14, 104, 6)]


@pytest.mark.parametrize(
    ("copies", "alone", "expected"),
    [
        # Keys 0 to 2, all in a run of copies behind one message with key 1.
        ((0, 0, 50, 9), (1, 4, 40, 1), (1, 0)),
        # Messages of keys 0 to 2 around a copy with key 0, and behind it.
        ((0, 3, 50, 1), (1, 0, 40, 30), (1, 1)),
        # Key 2 is copied, and alone behind that only.
        ((0, 2, 50, 1), (1, 2, 60, 1), (0, 0)),
        # A producer whose messages have no key.
        ((9, 0, 50, 9), (1, 4, 40, 1), (0, 0)),
    ],
)
def test_key_conflicts_when_a_copy_follows_a_target_only_message(
    copies: tuple[int, int, int, int], alone: tuple[int, int, int, int], expected: tuple[int, int]
) -> None:
    """By run, whatever its length."""
    found = conflicts(_runs(copies), _runs(alone), {0: 3, 1: 3})
    assert (found["keys"].sum(), found["own_last"].sum()) == expected


def test_single_key_producer_uses_its_number_as_key() -> None:
    """Where it has one key only."""
    found = conflicts(_runs((4, 0, 50, 9)), _runs((4, 20, 40, 5)), {4: 0})
    assert (found["keys"].sum(), found["own_last"].sum()) == (1, 0)
