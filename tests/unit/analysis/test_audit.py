"""Counts compared: what is missing where, what comes late, and what is forgotten."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from kaput.analysis.streaming.audit import KEEP_MS, LOG, MIRROR, WAIT_MS, Audit, Counted
from kaput.analysis.streaming.growing_audit import COMMITTED, GrowingAudit
from kaput.clients.audit_reports import BUCKET_MS, PRODUCED, CountReport, consumed_by
from kaput.core import TopicPartition

NOW = 100 * BUCKET_MS + WAIT_MS  # the 99th bucket is closed


def log(bucket: int, n: int, last: int, side: str = LOG, partition: int = 0) -> Counted:
    """So many records of that bucket, the last at that offset."""
    return Counted(side, "orders", partition, bucket * BUCKET_MS, n, last, bucket * BUCKET_MS + 7)


def report(bucket: int, n: int, stage: str = PRODUCED, client: str = "c") -> CountReport:
    """So many messages of that bucket."""
    return CountReport(client, stage, "orders", bucket * BUCKET_MS, n)


def test_each_stage_is_compared_with_the_one_before() -> None:
    """Stored against produced; mirrored and consumed against stored. Of a client the last report counts."""
    audit = Audit(0, mirrored=True).after(
        [log(99, 8, 7), log(99, 7, 6, MIRROR)],
        [report(99, 5), report(99, 10), report(99, 4), report(99, 6, consumed_by("billing"), "d")],
        {},
    )
    (row,), _ = audit.checked_at(NOW)
    assert row.stages == {"produced": 10, "stored": 8, "mirrored": 7, "consumed by billing": 6}
    assert row.missing == {"stored": 2, "mirrored": 1, "consumed by billing": 2}
    assert audit.totals([row])["orders"]["stored"] == {"count": 8, "missing": 2}


def test_only_complete_and_settled_buckets_are_checked() -> None:
    """Not the one in which the audit began, and not the newest."""
    audit = Audit(98 * BUCKET_MS).after([log(97, 1, 0), log(98, 1, 1), log(99, 1, 2), log(100, 1, 3)], [], {})
    assert [row.bucket_ms // BUCKET_MS for row in audit.checked_at(NOW)[0]] == [98, 99]


def test_record_found_after_the_check_is_late_not_missing() -> None:
    _, audit = Audit(0).after([log(99, 8, 7)], [report(99, 10)], {}).checked_at(NOW)
    (row,), audit = audit.after([log(99, 2, 9)], [], {}).checked_at(NOW)
    assert (row.missing, audit.late) == ({}, {"stored": 2})


def test_committed_buckets_count_as_consumed() -> None:
    """Buckets below the committed offset of their partition; what its members reported, if that is more."""
    counted = [log(98, 5, 4), log(99, 5, 9), log(99, 3, 2, partition=1)]
    audit = Audit(0).after(counted, [], {"billing": {("orders", 0): 10, ("orders", 1): 2}})
    rows, _ = audit.checked_at(NOW)
    assert [row.stages["consumed by billing"] for row in rows] == [5, 5]
    audit = audit.after([], [report(99, 8, consumed_by("billing"))], {"billing": {}})
    assert [row.missing for row in audit.checked_at(NOW)[0]] == [{"consumed by billing": 5}, {}]


def test_no_produced_stage_without_producer_reports() -> None:
    """Nor of topics of which none reports."""
    (row,), _ = Audit(0).after([log(99, 8, 7)], [], {}).checked_at(NOW)
    assert row.stages == {"stored": 8} and row.missing == {}


def test_mirror_lag_is_the_age_of_the_oldest_missing_bucket() -> None:
    """In the partition where that is most; of a topic of which it has nothing, nothing is known."""
    audit = Audit(0, mirrored=True).after([log(99, 1, 0), log(99, 1, 0, partition=1)], [], {})
    assert audit.mirror_lag_ms() == {}
    audit = audit.after([log(97, 1, 0, MIRROR), log(99, 1, 0, MIRROR, partition=1)], [], {})
    assert audit.mirror_lag_ms() == {"orders": 2 * BUCKET_MS}
    assert audit.after([log(99, 1, 1, MIRROR)], [], {}).mirror_lag_ms() == {"orders": 0}


def test_expired_buckets_are_folded_into_totals() -> None:
    """The totals stay as they were, and a report that comes then changes nothing."""
    audit = Audit(0).after([log(98, 5, 4), log(99, 5, 9)], [report(98, 6), report(99, 5)], {})
    rows, audit = audit.checked_at(NOW)
    before = audit.totals(rows)
    later = 98 * BUCKET_MS + KEEP_MS + BUCKET_MS
    rows, audit = audit.checked_at(later)
    assert [row.bucket_ms for row in rows] == [99 * BUCKET_MS] and len(audit.counted) == 1
    assert audit.totals(rows) == before
    rows, audit = audit.after([], [report(98, 9)], {}).checked_at(later)
    assert audit.totals(rows) == before


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b'{"client": "c"}', b'{"n": "many"}', b"\xff"])
def test_malformed_report_record_is_ignored(value: bytes | None) -> None:
    """Anybody may write into the topic."""
    assert CountReport.read(value) is None
    assert CountReport.read(report(3, 4).write().encode()) == report(3, 4)


def noted(directory: Path, source: int, began_ms: int) -> None:
    """Spark has noted where it begins to read a source."""
    path = directory / f"checkpoint/sources/{source}/0"
    path.parent.mkdir(parents=True)
    path.touch()
    os.utime(path, (began_ms / 1000, began_ms / 1000))


def test_bucket_is_complete_once_every_source_is_read(tmp_path: Path) -> None:
    """A micro-batch counts once, also in a process that goes on; what groups committed comes from a file."""
    began_ms = int(time.time() * 1000) // BUCKET_MS * BUCKET_MS - 10 * BUCKET_MS
    bucket = began_ms // BUCKET_MS
    noted(tmp_path, 0, began_ms - 3)
    audit = GrowingAudit(tmp_path, mirrored=True, from_start=False)
    audit.grow()
    assert audit.batch == -1 and not (tmp_path / "status.json").exists()
    noted(tmp_path, 1, began_ms - 1)
    (tmp_path / COMMITTED).write_text(json.dumps({"billing": [["orders", 0, 5]]}))
    found = [log(bucket - 1, 7, 1), log(bucket, 5, 4), log(bucket, 4, 3, MIRROR)], []
    audit.grow(found, 0)
    audit = GrowingAudit(tmp_path, mirrored=True, from_start=False)
    audit.grow(found, 0)
    audit.grow()
    assert audit.reached({TopicPartition("orders", 0): 5})
    assert not audit.reached({TopicPartition("orders", 0): 6})
    audit.finish(complete=True)
    final = json.loads((tmp_path / "final.json").read_text())
    assert final["complete"] and (final["missing"], final["late"]) == (1, 0)
    assert final["audited"]["orders"] == {
        "stored": {"count": 5, "missing": 0},
        "mirrored": {"count": 4, "missing": 1},
        "consumed by billing": {"count": 5, "missing": 0},
    }
    (line,) = (tmp_path / "buckets.jsonl").read_text().splitlines()
    assert json.loads(line)["missing"] == {"mirrored": 1}
