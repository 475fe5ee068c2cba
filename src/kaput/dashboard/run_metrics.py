"""Metrics of runs in progress, read from their folders alone.

For each run: messages sent, acknowledged and delivered, latency, lag, faults and mirrors. Counts are
provisional until the drain; attempts have no partition, and lag is sampled.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kaput.dashboard.listing import RECORDING, Listing
from kaput.dashboard.safe_files import Runs
from kaput.dashboard.watching.run_tails import Longs, Row, RunTails, rows_of, state_of
from kaput.errors import KaputError
from kaput.evidence.schemas import whole
from kaput.monitor.metrics_server import Exposition
from kaput.monitor.series import SeriesTable
from kaput.monitor.signals import SIGNALS, Sample

_COLUMNS = {
    "sends": ("topic", "partition", "attempt_ns", "done_ns", "outcome"),
    "deliveries": ("group", "topic", "partition"),
    "faults": ("id", "injected_ns", "effective_ns", "healed_ns", "bit", "proof"),
    "samples": ("at_ns", "name", "labels", "value"),
    "mirror": ("mirror", "kind", "topic", "partition", "source_offset", "value", "at_ns"),
}
_MOST_RUNS = 20  # the last that began; a run that is over stays until newer ones displace it
_KEPT_ENDS = 3_600  # samples of a source's end offset: an hour
_COUNTED = {"acked": "kaput_messages_acked_total", "failed": "kaput_messages_failed_total"}
Place = tuple[str, str]


class RunMetrics:
    def __init__(self, runs: Runs, name: str) -> None:
        self._tails = RunTails(runs, name, _COLUMNS)
        self._name = name
        self.series = SeriesTable(more_labels=("run",))
        self._sent = self._with_outcome = 0
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._leaders: dict[Place, str] = {}
        self._gauges: dict[tuple[str, tuple[str, ...]], float] = {}
        self._mirrors: dict[str, MirrorLag] = {}

    def look(self) -> None:
        """Reads new rows. Raises OSError."""
        # Samples first: they have the leaders.
        for table, found in sorted(self._tails.take(), key=lambda item: item[0] != "samples"):
            getattr(self, f"_{table}")(found)
        self.series.add(self._current())

    def close(self) -> None:
        """Closes all files; the numbers stay."""
        self._tails.close()

    # The rows of each table, by its name.

    def _attempts(self, made: Longs) -> None:
        self._sent += len(made)

    def _sends(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            self._with_outcome += len(batch)
            for outcome, name in _COUNTED.items():
                of_it = batch.filter(pc.fill_null(pc.equal(batch.column("outcome"), outcome), False))
                self._count(name, of_it, ("topic", "partition"))
                if outcome == "acked":
                    self._latencies(of_it.filter(pc.is_valid(of_it.column("done_ns"))))

    def _deliveries(self, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            self._count("kaput_messages_delivered_total", batch, ("group", "topic", "partition"))

    def _count(self, name: str, batch: pa.RecordBatch, by: tuple[str, ...]) -> None:
        for values, count in _grouped(batch, by):
            self._counts[name, values] += count

    def _latencies(self, acked: pa.RecordBatch) -> None:
        """Attributes latencies to the current leader, which nearly always is the acknowledging broker."""
        for place, _ in _grouped(acked, ("topic", "partition")):
            topic, partition = place
            here = pc.and_(pc.equal(acked.column("topic"), topic), _is(acked.column("partition"), partition))
            some = acked.filter(pc.fill_null(here, False))
            took_ns = pc.subtract(some.column("done_ns"), some.column("attempt_ns"))
            labels = {"run": self._name, "broker": self._leaders.get((topic, partition), "")}
            seconds = (took_ns.to_numpy(zero_copy_only=False) / 1e9).tolist()
            self.series.observe("kaput_produce_latency_seconds", labels, seconds)

    def _faults(self, batches: Iterator[pa.RecordBatch]) -> None:
        for row in rows_of(batches):
            self._gauges["kaput_fault_active", (str(row["id"]),)] = float(state_of(row) == "active")

    def _samples(self, batches: Iterator[pa.RecordBatch]) -> None:
        for row in rows_of(batches):
            if whole(row["value"]):
                self._sample(row, dict(row["labels"] or ()))

    def _sample(self, row: Row, labels: Mapping[str, str]) -> None:
        topic, partition = labels.get("topic", ""), labels.get("partition", "")
        if row["name"] == "leader":
            self._leaders[topic, partition] = str(int(row["value"]))
        elif row["name"] == "lag":
            key = (labels.get("group", ""), topic, partition)
            self._gauges["kaput_consumer_lag_records", key] = row["value"]

    def _mirror(self, batches: Iterator[pa.RecordBatch]) -> None:
        for row in rows_of(batches):
            if row["kind"] == "lag" and row["value"] is not None and row["source_offset"] is not None:
                place = (str(row["topic"]), str(row["partition"]))
                lag = self._mirrors.setdefault(str(row["mirror"]), MirrorLag())
                lag.add(place, row["source_offset"], row["source_offset"] - int(row["value"]), row["at_ns"])

    def _current(self) -> Iterator[Sample]:
        run = {"run": self._name}
        # Other programs' writers may record outcomes without attempts.
        yield Sample("kaput_messages_sent_total", max(self._sent, self._with_outcome), 0, run)
        for (name, values), value in (*self._counts.items(), *self._gauges.items()):
            labels = zip(SIGNALS[name].labels, values, strict=True)
            yield Sample(name, value, 0, {**run, **dict(labels)})
        for mirror, lag in self._mirrors.items():
            yield Sample("kaput_mirror_lag_seconds", lag.seconds(), 0, {**run, "mirror": mirror})


class MirrorLag:
    """The lag of a mirror in seconds, from samples of the source's end offset and the mirrored offset. The
    age of the oldest record not yet mirrored counts from the first sample in which the source had it.
    """

    def __init__(self) -> None:
        self._ends: dict[Place, deque[tuple[int, int]]] = {}
        self._behind_s: dict[Place, float] = {}

    def add(self, place: Place, end: int, arrived: int, at_ns: int) -> None:
        """Adds a sample: the source's log ends at `end`, and everything below `arrived` is mirrored."""
        ends = self._ends.setdefault(place, deque(maxlen=_KEPT_ENDS))
        if not ends or end > ends[-1][1]:
            ends.append((at_ns, end))
        while ends and ends[0][1] <= arrived:
            ends.popleft()
        self._behind_s[place] = (at_ns - ends[0][0]) / 1e9 if arrived < end and ends else 0.0

    def seconds(self) -> float:
        """The lag of the partition that is furthest behind."""
        return max(self._behind_s.values(), default=0.0)


class FolderMetrics:
    """The metrics of all runs in a folder that are being recorded, read at every scrape."""

    def __init__(self, runs: Runs) -> None:
        self._runs, self._listing = runs, Listing(runs)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, RunMetrics] = OrderedDict()
        self._over: set[str] = set()
        self.exposition = Exposition(self.tables)

    def tables(self) -> list[SeriesTable]:
        """The current series of each run."""
        with self._lock:
            recording = {line.name for line in self._listing.lines() if line.state == RECORDING}
            for name in sorted(recording - self._known.keys()):
                self._known[name] = RunMetrics(self._runs, name)
            for name, run in self._known.items():
                if name not in self._over:
                    self._read(name, run, is_over=name not in recording)
            self._forget()
            return [run.series for run in self._known.values()]

    def _read(self, name: str, run: RunMetrics, is_over: bool) -> None:
        try:
            run.look()
        except (OSError, KaputError):
            is_over = True
        if is_over:
            run.close()
            self._over.add(name)

    def _forget(self) -> None:
        while len(self._known) > _MOST_RUNS:
            name, run = self._known.popitem(last=False)
            run.close()
            self._over.discard(name)


def _grouped(batch: pa.RecordBatch, by: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], int]]:
    """The number of rows for each combination of values, as text; null is empty."""
    table = pa.Table.from_batches([batch]).select(list(by))
    for row in table.group_by(list(by)).aggregate([([], "count_all")]).to_pylist():
        yield tuple("" if row[name] is None else str(row[name]) for name in by), int(row["count_all"])


def _is(column: pa.Array, text: str) -> pa.Array:
    return pc.is_null(column) if text == "" else pc.equal(column, int(text))
