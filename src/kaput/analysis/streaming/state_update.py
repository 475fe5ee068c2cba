"""Grows the state of a watch by Spark's micro-batches and what clients recorded meanwhile.

Not here: the counting (ledger.py, counts.py).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from kaput.analysis.runs.columns import NAMED
from kaput.analysis.runs.names import Names
from kaput.analysis.streaming.arrivals import arrivals, frame, positions_after
from kaput.analysis.streaming.evidence import RecordedEvidence
from kaput.analysis.streaming.inferred_sends import WAIT_NS
from kaput.analysis.streaming.ledger import Ledger
from kaput.analysis.streaming.state import StateFile, WatchState
from kaput.analysis.streaming.status import status
from kaput.core import SECOND, TopicPartition
from kaput.evidence.folder import replace_text

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
            arrived = replace(arrived, log=log, positions=positions_after(log))
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
