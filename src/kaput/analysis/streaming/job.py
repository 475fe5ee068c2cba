"""The streaming job of a watch, in its own process: `python -m kaput.analysis.streaming.job SPEC.json`.

Spark reads Kafka; each micro-batch, with what clients have recorded meanwhile, makes the next version of the
state (state.py) and of status.json, which the watch reads. What clients record counts even while Kafka
returns nothing. The job resumes from the state, however the previous process ended.

A line of JSON on stdin, {"ends": {"topic/partition": offset}}, makes it read up to there, write final.json
and exit. At the end of stdin it exits at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kaput.analysis.runs.names import Names
from kaput.analysis.streaming.audit import LOG, MIRROR
from kaput.analysis.streaming.growing_audit import GrowingAudit
from kaput.analysis.streaming.numbering import Numbering
from kaput.analysis.streaming.state_update import GrowingLedger
from kaput.clients.audit_reports import TOPIC as REPORTS
from kaput.core import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TRIGGER_S = 1.0
_RETRY_S = (1.0, 2.0, 5.0)  # after a failed query
_END_TIMEOUT_S = 60.0  # for reading up to the end


@dataclass(frozen=True)
class AuditSpec:
    """Count messages, ignoring their numbers. `mirror`: the servers of a second cluster with copies, in
    topics prefixed with `prefix`; `access`: a file of client properties for it.
    """

    mirror: str | None = None
    prefix: str = ""
    access: str | None = None


@dataclass(frozen=True)
class WatchJobSpec:
    """What the job reads, and where it keeps its state. `start`: where to begin, as in Spark's Kafka source;
    `numbering`: the fields of a Numbering, None for an audit; `access`: a file of client properties; `jars`:
    Spark's Kafka source; `conf`: more Spark settings.
    """

    folder: str
    directory: str
    numbering: Mapping[str, Any] | None
    bootstrap_servers: str
    topics: Sequence[str]
    groups: Sequence[str]
    jars: Sequence[str]
    start: str = "earliest"
    audit: AuditSpec | None = None
    access: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def numbers(self) -> Numbering:
        """How to identify messages."""
        assert self.numbering is not None
        return Numbering(**self.numbering)

    @property
    def names(self) -> Names:
        """The names of topics and groups; their numbers are their positions."""
        return Names(self.topics, self.groups, ())


class WatchJob:
    """Runs the query, restarting it when it fails, until the end is requested."""

    def __init__(self, spec: WatchJobSpec) -> None:
        self._spec = spec
        folder, directory = Path(spec.folder), Path(spec.directory)
        self._ledger: GrowingLedger | GrowingAudit
        if spec.audit is not None:
            mirrored, from_start = spec.audit.mirror is not None, spec.start == "earliest"
            self._ledger = GrowingAudit(directory, mirrored=mirrored, from_start=from_start)
        else:
            self._ledger = GrowingLedger(folder, directory, spec.names, implied=not spec.numbers.own)
        self._end_requested = threading.Event()
        self._ends: dict[TopicPartition, int] = {}

    def run(self) -> None:
        """Runs up to the requested end, or until stdin ends."""
        threading.Thread(target=self._listen, daemon=True).start()
        with _session(self._spec) as spark:
            self._run(spark)

    def _run(self, spark: SparkSession) -> None:
        failures = 0
        query = None
        limit = None
        while True:
            if query is None or not query.isActive:
                if query is not None:
                    failures += 1
                    self._ledger.trouble = _why(query.exception())
                    self._ledger.write_status()
                    self._end_requested.wait(_RETRY_S[min(failures, len(_RETRY_S)) - 1])
                query = self._start_query(spark)
            time.sleep(0.1)
            if time.monotonic() - self._ledger.last_grown_s > _TRIGGER_S:
                self._ledger.grow()  # Kafka returned nothing
            if self._end_requested.is_set():
                limit = limit or time.monotonic() + _END_TIMEOUT_S
                if self._try_to_finish(limit, _read_to(query)):
                    break
        if query is not None:
            query.stop()

    def _try_to_finish(self, limit: float, read_to: Mapping[TopicPartition, int]) -> bool:
        """`read_to`: by Spark's account; of partitions in which nothing came, the ledger has none."""
        left = {place: end for place, end in self._ends.items() if read_to.get(place, 0) < end}
        reached, now = self._ledger.reached(left), time.monotonic()
        if reached and now < limit and isinstance(self._ledger, GrowingLedger):
            reached = now >= self._ledger.judged_at_s()
        if reached or now > limit:
            self._ledger.finish(complete=reached)
            return True
        return False

    def _start_query(self, spark: SparkSession) -> Any:
        writer = (
            _rows(spark, self._spec)
            .writeStream.foreachBatch(self._apply)
            .trigger(processingTime=f"{_TRIGGER_S} seconds")
        )
        return writer.option("checkpointLocation", str(Path(self._spec.directory) / "checkpoint")).start()

    def _apply(self, batch: DataFrame, number: int) -> None:
        from kaput.analysis.streaming.kafka_source import counted, runs_of

        if number <= self._ledger.batch:
            return
        if isinstance(self._ledger, GrowingAudit):
            assert self._spec.audit is not None
            self._ledger.grow(counted(batch, self._spec.audit.prefix), number)
        else:
            self._ledger.grow(runs_of(batch, self._spec.numbers, self._spec.names), number)
        self._ledger.trouble = None

    def _listen(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            places = {place.rpartition("/"): end for place, end in message["ends"].items()}
            self._ends = {TopicPartition(topic, int(p)): end for (topic, _, p), end in places.items()}
            self._end_requested.set()
        if not self._end_requested.is_set():
            os._exit(0)  # the parent is gone; the state is consistent at any time


def _read_to(query: Any) -> dict[TopicPartition, int]:
    """How far the last micro-batch of the first source had read each partition."""
    progress = query.lastProgress
    offsets = json.loads(progress["sources"][0]["endOffset"] or "{}") if progress else {}
    return {
        TopicPartition(topic, int(number)): end
        for topic, places in offsets.items()
        for number, end in places.items()
    }


def _rows(spark: SparkSession, spec: WatchJobSpec) -> DataFrame:
    """The streaming DataFrame that the query reads."""
    from kaput.analysis.streaming.kafka_source import records, to_count

    here = (spec.bootstrap_servers, spec.topics, _properties(spec.access), spec.start)
    audit = spec.audit
    if audit is None:
        return records(spark, *here, committed=True)
    rows = to_count(records(spark, *here, created_later=True), LOG)
    if audit.mirror is None:
        return rows
    copies = [f"{audit.prefix}{topic}" for topic in spec.topics if topic != REPORTS]
    there = (audit.mirror, copies, _properties(audit.access), spec.start)
    return rows.unionAll(to_count(records(spark, *there, created_later=True), MIRROR))


@contextmanager
def _session(spec: WatchJobSpec) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    from kaput.analysis.spark.session import owned

    conf = {"spark.sql.shuffle.partitions": "1", **spec.conf}
    with owned(spec.master, conf, [Path(jar) for jar in spec.jars]) as context:
        yield SparkSession(context)


def _properties(path: str | None) -> Mapping[str, str]:
    from kaput.cluster.access import Access

    return {} if path is None else Access.read(Path(path)).properties


def _why(error: object) -> str:
    """Why a query ended, as one line: for an error in Python, the end of its traceback."""
    lines = [line for line in str(error or "the query ended").splitlines() if line.strip()]
    if "Traceback" in lines[0]:
        lines = [line for line in lines if not line.startswith((" ", "\t", "JVM stacktrace"))][1:] or lines
    return lines[0][:300]


def write_spec(path: Path, spec: WatchJobSpec) -> None:
    """Writes the spec as a JSON file. Raises OSError."""
    path.write_text(json.dumps(asdict(spec)))


def main() -> None:
    """Runs the job."""
    from kaput.processes.skip_pandas import skip_pandas

    skip_pandas()
    given = json.loads(Path(sys.argv[1]).read_text())
    audit = given.pop("audit")
    WatchJob(WatchJobSpec(**given, audit=None if audit is None else AuditSpec(**audit))).run()


if __name__ == "__main__":
    main()
