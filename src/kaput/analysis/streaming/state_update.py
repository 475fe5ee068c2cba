"""Grows the state of a watch by Spark's micro-batches and what clients recorded meanwhile.

Not here: the counting (ledger.py, counts.py).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from kaput.analysis.engine import steps
from kaput.analysis.runs.columns import NAMED
from kaput.analysis.runs.names import Names
from kaput.analysis.streaming.arrivals import arrivals, frame
from kaput.analysis.streaming.counts import WindowCounts, percentiles
from kaput.analysis.streaming.inferred_sends import WAIT_NS
from kaput.analysis.streaming.ledger import Ledger, Totals
from kaput.analysis.streaming.state import StateFile, WatchState
from kaput.core import SECOND, TopicPartition
from kaput.evidence.folder import replace_text
from kaput.evidence.schemas import TABLES
from kaput.evidence.tails import StreamTail

STATUS, FINAL, WINDOWS = "status.json", "final.json", "windows.jsonl"


class GrowingLedger:
    """The growing state in `directory`. Thread-safe. `folder`: the run folder that clients record in;
    `implied`: whether only the numbers of messages tell which were sent (inferred_sends.py).
    """

    def __init__(self, folder: Path, directory: Path, names: Names, implied: bool = False) -> None:
        self._directory, self._names = directory, names
        self._store = StateFile(self._directory, WatchState)
        self.state = self._store.load() or WatchState(Ledger.empty(self._names, implied))
        self._evidence = RecordedEvidence(folder, self.state.taken)
        self._lock = threading.Lock()
        self._windows = self._directory / WINDOWS
        self.last_grown_s = time.monotonic()
        self._news_s = float("-inf")  # when records came last
        self._tops: Mapping[int, int] | None = None  # of producers, when the end was reached
        self._judged_at_s = float("-inf")
        self.trouble: str | None = None
        # Lines written after the last kept state will be written again.
        with self._windows.open("ab") as file:
            file.truncate(self.state.windows_bytes)

    @property
    def batch(self) -> int:
        """The last of Spark's micro-batches that the state includes."""
        return self.state.batch

    def grow(self, log: pl.DataFrame | None = None, batch: int | None = None) -> None:
        """Makes the next version, with runs of the log, if Spark has any, and with what clients have
        recorded. `batch`: the number of Spark's micro-batch; ignored if the state includes it already. Raises
        OSError.
        """
        with self._lock:
            state = self.state
            if batch is not None and batch <= state.batch:
                return
            began = time.monotonic()
            grown = self._with(state, log, replace(state, batch=state.batch if batch is None else batch))
            closed, counts = grown.counts.closed()
            self._keep(replace(grown, counts=counts), closed)
            self.last_grown_s = time.monotonic()
            if log is not None and log.height:
                self._news_s = self.last_grown_s
            self._write(STATUS, took_s=round(self.last_grown_s - began, 3))

    def _with(self, state: WatchState, log: pl.DataFrame | None, grown: WatchState) -> WatchState:
        rows = {
            table: frame(table, arrived_rows, self._names)
            for table, arrived_rows in self._evidence.take().items()
        }
        sends, deliveries = rows.get("sends"), rows.get("deliveries")
        arrived = arrivals(sends=sends, deliveries=deliveries)
        times = None
        if log is not None and log.height:
            arrived = replace(arrived, log=log)
            times = log.filter(NAMED)
            unnamed = log.filter(pl.col("producer").is_null())
            corrupt = int(unnamed.filter(~pl.col("intact"))["n"].sum())
            foreign = int(unnamed["n"].sum()) - corrupt
            grown = replace(grown, corrupt=grown.corrupt + corrupt, foreign=grown.foreign + foreign)
        return replace(
            grown,
            ledger=state.ledger.after(arrived),
            counts=state.counts.after(sends, times, deliveries),
            version=state.version + 1,
            taken=dict(self._evidence.taken),
        )

    def _keep(self, state: WatchState, closed: Sequence[Mapping[str, object]]) -> None:
        if closed:
            lines = "".join(json.dumps(self._named(row)) + "\n" for row in closed).encode()
            with self._windows.open("r+b") as file:
                file.seek(state.windows_bytes)
                file.write(lines)
            state = replace(state, windows_bytes=state.windows_bytes + len(lines))
        self._store.keep(state)
        self.state = state

    def _named(self, row: Mapping[str, object]) -> dict[str, object]:
        place = row["place"]
        at = self._names.located(place) if isinstance(place, int) else TopicPartition("", -1)
        return {**row, "topic": at.topic, "partition": at.partition, "place": None}

    def reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the log was read up to these offsets."""
        positions = self.state.ledger.positions
        return all(positions.get(self._names.code(place), 0) >= end for place, end in ends.items())

    def judged_at_s(self) -> float:
        """When, on the monotonic clock, everything that was read by the first call can be judged. Numbers
        alone do not tell a loss from a message that another partition still gets: what is on its way may come
        until no records have come for WAIT_NS, or reading has gone on for that long.
        """
        with self._lock:
            numbered = self.state.ledger.numbered
            if self._tops is None and numbered is not None:
                self._tops, self._judged_at_s = dict(numbered.tops), self._news_s + WAIT_NS / SECOND
            return self._judged_at_s

    def finish(self, complete: bool) -> None:
        """Makes the last version and closes all windows. `complete`: whether the log was read to its end."""
        self.grow()
        with self._lock:
            closed, counts = self.state.counts.closed(every=True)
            ledger = self.state.ledger.read_to_the_end(self._tops or {}) if complete else self.state.ledger
            self._keep(replace(self.state, counts=counts, ledger=ledger), closed)
            self._write(FINAL)

    def write_status(self) -> None:
        """Rewrites status.json after `trouble` has changed."""
        with self._lock:
            self._write(STATUS)

    def _write(self, name: str, **more: object) -> None:
        document = {**status(self.state, self._names), "trouble": self.trouble, **more}
        replace_text(self._directory / name, json.dumps(document))


READ = ("sends", "deliveries")  # what clients record
_STREAM = ".arrows"
_MAX_READS = 64  # of a very long file at a time; the rest is for the next micro-batch


class RecordedEvidence:
    """The streams in a run folder. `taken`: by TABLE/FILE, how many rows were read so far."""

    def __init__(self, folder: Path, taken: Mapping[str, int]) -> None:
        self._folder = folder / "evidence"
        self.taken = dict(taken)
        self._skip = dict(taken)
        self._tails: dict[str, StreamTail] = {}

    def take(self) -> dict[str, pa.Table]:
        """New rows by table, of tables with any."""
        rows_by_table: dict[str, pa.Table] = {}
        for table in READ:
            self._find(table)
            batches = [
                batch
                for name, tail in sorted(self._tails.items())
                if name.startswith(f"{table}/")
                for batch in self._rows(name, tail)
            ]
            if batches:
                rows_by_table[table] = pa.concat_tables(batches)
        return rows_by_table

    def _find(self, table: str) -> None:
        """Opens new streams."""
        directory = self._folder / table
        if not directory.is_dir():
            return
        columns = [field.name for field in TABLES[table].schema]
        for path in directory.iterdir():
            name = f"{table}/{path.name}"
            if path.suffix == _STREAM and name not in self._tails:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._tails[name] = StreamTail(descriptor, columns)

    def _rows(self, name: str, tail: StreamTail) -> list[pa.Table]:
        schema = TABLES[name.partition("/")[0]].schema
        tables = []
        for _ in range(_MAX_READS):
            for batch in tail.take():
                rows = batch.num_rows
                skipped = min(rows, self._skip.get(name, 0))
                if skipped:
                    self._skip[name] -= skipped
                if rows > skipped:
                    # Text is dictionary-encoded in streams, with a dictionary per batch.
                    tables.append(pa.table(batch.slice(skipped)).select(schema.names).cast(schema))
                    self.taken[name] = self.taken.get(name, 0) + rows - skipped
            if not tail.more:
                break
        return tables


def status(state: WatchState, names: Names) -> dict[str, Any]:
    """The state as JSON. `behind_s`: the age of its newest row."""
    totals, counts = state.ledger.totals(), state.counts
    return {
        "version": state.version,
        "at_ns": time.time_ns(),
        "behind_s": None if not counts.newest_ns else round((time.time_ns() - counts.newest_ns) / SECOND, 3),
        "watermark_ns": counts.watermark_ns,
        "runs": state.ledger.runs,
        "complete": state.ledger.complete,
        "sent": totals.sent,
        "acked": totals.outcome("acked"),
        "failed": totals.outcome("failed"),
        "unknown": totals.outcome("unknown"),
        "missing": totals.missing,
        "late": totals.late,
        "duplicated": totals.duplicated,
        "reordered": totals.reordered,
        "phantoms": totals.phantoms,
        "corrupt": state.corrupt,
        "foreign": state.foreign,
        "fates": [{"outcome": o, "stored": s, "count": n} for (o, s), n in sorted(totals.fates.items())],
        "group_fates": [
            {"group": g, "outcome": o, "stored": s, "delivered": d, "count": n}
            for (g, o, s, d), n in sorted(totals.group_fates.items())
        ],
        "places": _places(state, totals, names),
        "latency_ms": _latencies(counts),
        "durations": _durations(counts, names),
    }


def _places(state: WatchState, totals: Totals, names: Names) -> list[dict[str, Any]]:
    words = ("sent", "acked", "stored", "delivered")
    sums = {what: state.counts.sum_of(what) for what in words}
    anomalies = {
        "missing": totals.missing_at,
        "late": totals.late_at,
        "duplicated": totals.duplicated_at,
        "reordered": totals.reordered_at,
    }
    rows = []
    for place in sorted({place for by in sums.values() for place in by} | set(state.ledger.positions)):
        topic, partition = names.located(place)
        numbers = {what: sums[what].get(place, 0) for what in words}
        position = state.ledger.positions.get(place)
        anomaly_counts = {what: at.get(place, 0) for what, at in anomalies.items()}
        rows.append(
            {"topic": topic, "partition": partition, **numbers, **anomaly_counts, "position": position}
        )
    return rows


def _latencies(counts: WindowCounts) -> dict[str, Any]:
    names = (("ack", "acked"), ("end_to_end", "delivered"))
    return {name: percentiles(counts.grades.filter(pl.col("what") == what)) for name, what in names}


def _durations(counts: WindowCounts, names: Names) -> list[dict[str, Any]]:
    """The latencies since the beginning, by partition: the middle of each grade, and its count."""
    words = {"acked": "ack", "delivered": "end_to_end"}
    grades = counts.grades.drop_nulls("place")
    us = steps.middle_us(grades["grade"].to_numpy())
    rows = []
    for (place, what, n), us_value in zip(grades.select("place", "what", "n").iter_rows(), us, strict=True):
        topic, partition = names.located(place)
        row = {"what": words[what], "topic": topic, "partition": partition}
        rows.append({**row, "ms": float(us_value) / 1000, "count": n})
    return rows
