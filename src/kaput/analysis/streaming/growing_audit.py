"""Grows an audit by Spark's micro-batches and by what groups have committed meanwhile.

Not here: the counting (audit.py).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kaput.analysis.streaming.audit import LOG, Audit, Committed, Counted, Row
from kaput.analysis.streaming.state import StateFile
from kaput.analysis.streaming.state_update import FINAL, STATUS
from kaput.clients.audit_reports import BUCKET_MS, CountReport
from kaput.core import TopicPartition
from kaput.evidence.folder import replace_text

COMMITTED, BUCKETS = "committed.json", "buckets.jsonl"
_MOST_SHOWN = 100
Found = tuple[Sequence[Counted], Sequence[CountReport]]


@dataclass(frozen=True)
class AuditState:
    """`batch`: the last of Spark's micro-batches in it. `audit`: None until Spark's start is known."""

    audit: Audit | None = None
    version: int = 0
    batch: int = -1


class GrowingAudit:
    """The growing state in `directory`. Thread-safe. `mirrored`: whether a mirror is read, too; `from_start`:
    whether to read records from before the watch.
    """

    def __init__(self, directory: Path, *, mirrored: bool, from_start: bool) -> None:
        self._directory, self._mirrored, self._from_start = directory, mirrored, from_start
        self._store = StateFile(directory, AuditState)
        self._state = self._store.load() or AuditState()
        self._rows: list[Row] = []
        self._lock = threading.Lock()
        self._complete = False
        self.last_grown_s = time.monotonic()
        self.trouble: str | None = None

    @property
    def batch(self) -> int:
        """The last of Spark's micro-batches that the state includes."""
        return self._state.batch

    def grow(self, counted_and_reported: Found | None = None, batch: int | None = None) -> None:
        """Makes the next version. Raises OSError."""
        with self._lock:
            state = self._state
            if batch is not None and batch <= state.batch:
                return
            audit = state.audit or self._new_audit()
            if audit is None:
                if counted_and_reported is not None:
                    raise RuntimeError("a micro-batch came before Spark noted where it began")
                return
            counted, reported = counted_and_reported or ((), ())
            audit = audit.after(counted, reported, self._committed())
            self._rows, audit = audit.checked_at(time.time_ns() // 1_000_000)
            self._state = AuditState(audit, state.version + 1, state.batch if batch is None else batch)
            self._store.keep(self._state)
            self.last_grown_s = time.monotonic()
            self._write(STATUS)

    def _new_audit(self) -> Audit | None:
        """An empty audit, once Spark has recorded for each source where it begins to read. The time of that
        is when buckets start to be complete.
        """
        noted = [path.stat().st_mtime for path in self._directory.glob("checkpoint/sources/*/0")]
        if len(noted) < 1 + self._mirrored:
            return None
        began_ms = int(max(noted) * 1000)
        since_ms = 0 if self._from_start else -(-began_ms // BUCKET_MS) * BUCKET_MS
        return Audit(since_ms, self._mirrored)

    def _committed(self) -> Committed:
        try:
            text = (self._directory / COMMITTED).read_text()
        except FileNotFoundError:
            return {}
        committed: Committed = {
            group: {(topic, int(partition)): offset for topic, partition, offset in offsets}
            for group, offsets in json.loads(text).items()
        }
        return committed

    def reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the log was read up to these offsets."""
        audit = self._state.audit
        positions = {} if audit is None else audit.positions
        return all(positions.get((LOG, *place), 0) >= end for place, end in ends.items())

    def finish(self, complete: bool) -> None:
        """Makes the last version. `complete`: whether the log was read to its end."""
        self.grow()
        with self._lock:
            self._complete = complete
            lines = (json.dumps(row._asdict()) for row in self._rows)
            replace_text(self._directory / BUCKETS, "".join(f"{line}\n" for line in lines))
            self._write(FINAL)

    def write_status(self) -> None:
        """Rewrites status.json after `trouble` has changed."""
        with self._lock:
            self._write(STATUS)

    def _write(self, name: str) -> None:
        document = {**self._status(), "trouble": self.trouble, "complete": self._complete}
        replace_text(self._directory / name, json.dumps(document))

    def _status(self) -> dict[str, Any]:
        audit = self._state.audit
        if audit is None:
            return {"version": 0, "at_ns": time.time_ns()}
        topics = audit.totals(self._rows)
        short = [row._asdict() for row in self._rows if row.missing]
        return {
            "version": self._state.version,
            "at_ns": time.time_ns(),
            "since_ms": audit.since_ms,
            "audited": topics,
            "missing": sum(stage["missing"] for stages in topics.values() for stage in stages.values()),
            "late": sum(audit.late.values()),
            "buckets": short[:_MOST_SHOWN],
            "buckets_with_missing": len(short),
            "mirror_lag_ms": audit.mirror_lag_ms(),
        }
