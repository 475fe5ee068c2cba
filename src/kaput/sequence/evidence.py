"""Writes a check as evidence: a run folder that `kaput analyze` judges like any other.

Expected numbers count as acknowledged with acks=all, unless it is known which ones were; the lines are the
log of one partition. So `lost` are missing numbers, `duplicate` repeated ones, `reordered` those after a
later number, `phantom` lines with an unexpected number, and lines without a number are foreign records.
Missing numbers get the time of the number before them. Not here: counting (checking.py).
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import numpy as np
import yaml

from kaput.core import MS, NULL_LONG, VERSION
from kaput.errors import UsageError
from kaput.evidence.folder import Manifest, RunFolder, replace_text
from kaput.evidence.recorder import Recorder, Values
from kaput.evidence.recording import hold_to_record
from kaput.evidence.sealing import seal
from kaput.sequence.checking import CheckedLines
from kaput.sequence.intervals import Longs
from kaput.sequence.reading import Places
from kaput.sequence.summary import CheckSummary, ProducerSummary

TOPIC = "sequence"
MOST_PRODUCERS = 100_000
_ROWS = 1 << 20


class EvidenceFolder:
    """Writes lines as they are checked (`block` is a checking.OnBlock); `seal` ends it."""

    def __init__(self, path: Path, places: Places | None = None) -> None:
        """Raises UsageError if the folder can't be made, or isn't empty."""
        self._places = places or Places()
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path}: exists and is not an empty directory; give a new name")
        self.folder = RunFolder(path)
        self._manifest = Manifest(
            run_id=uuid.uuid4(),
            scenario="sequence",
            state="recording",
            versions={"kaput": VERSION},
            started_ns=time.time_ns(),
        )
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._hold = hold_to_record(path, "kaput sequence check")
            self.folder.write_manifest(self._manifest)
            self._sends = Recorder(path, "sends", "check")
            self._log = Recorder(path, "log", "check")
        except OSError as error:
            raise UsageError(f"{path}: cannot be created ({error.strerror})") from None
        self._earliest_ns: int | None = None

    def block(self, taken: list[CheckedLines], unreadable: Longs, first_line: int) -> None:
        """Writes checked lines to the log, and their first occurrences as sends."""
        for some in taken:
            lines, count = some.lines, len(some.first)
            if some.producer >= MOST_PRODUCERS:
                raise UsageError(
                    f"{self._places.of(first_line + int(lines.line[0]))}: producer {some.producer}: evidence "
                    f"has producers below {MOST_PRODUCERS:,}"
                )
            known = lines.time_ns != NULL_LONG
            if known.any():
                earliest = int(lines.time_ns[known].min())
                self._earliest_ns = min(earliest, self._earliest_ns or earliest)
            times = np.where(known, lines.time_ns, 0)
            self._log.batch(
                count,
                {
                    "topic": TOPIC,
                    "partition": 0,
                    "offset": first_line + lines.line,
                    "timestamp_ms": times // MS,
                    "producer": some.producer,
                    "seq": lines.number,
                    "intact": True,
                },
            )
            self._add_sends(some, lines.number[some.first], times[some.first])
        if len(unreadable):
            columns: dict[str, Values] = {"topic": TOPIC, "partition": 0, "timestamp_ms": 0, "intact": True}
            self._log.batch(len(unreadable), columns | {"offset": first_line + unreadable})

    def seal(self, summary: CheckSummary, ended: str | None) -> None:
        """Writes missing numbers as sends, and seals. `ended`: why the input was not read to its end."""
        for producer in summary.producers:
            self._add_missing(producer)
        self._sends.close()
        self._log.close()
        with Recorder(self.folder.path, "end_offsets", "check") as ends:
            read_to = summary.lines if ended is None else 0
            ends.row(topic=TOPIC, partition=0, end_offset=summary.lines, drained_to=read_to)
        replace_text(self.folder.scenario_path, yaml.safe_dump(_scenario(summary), sort_keys=False))
        started = self._earliest_ns or self._manifest.started_ns
        manifest = self._manifest.model_copy(
            update={
                "started_ns": started,
                "ended_ns": time.time_ns(),
                "troubles": [] if ended is None else [ended],
                "unreadable_lines": {"log": summary.unreadable} if summary.unreadable else {},
            }
        )
        self.folder.write_manifest(manifest)
        with self._hold:
            sealed = manifest.model_copy(update={"state": "sealed"})
            seal(self.folder, self._hold, lambda _warnings: self.folder.write_manifest(sealed))

    def _add_missing(self, producer: ProducerSummary) -> None:
        for gap in producer.gaps:
            near = [
                ns for ns in (gap.before_ns, gap.after_ns, self._earliest_ns) if ns not in (NULL_LONG, None)
            ]
            for first in range(gap.first, gap.last + 1, _ROWS):
                numbers = np.arange(first, min(first + _ROWS, gap.last + 1))
                self._add_sends(producer, numbers, np.full(len(numbers), near[0] if near else 0))

    def _add_sends(self, of: CheckedLines | ProducerSummary, numbers: Longs, times: Longs) -> None:
        columns: dict[str, Values] = {"producer": of.producer, "topic": TOPIC, "partition": 0}
        acked = of.sent.acknowledged(numbers)
        for chosen, outcome in ((acked, "acked"), (~acked, "unknown")):
            when = times[chosen]
            if len(when):
                some: dict[str, Values] = {"seq": numbers[chosen], "attempt_ns": when, "outcome": outcome}
                self._sends.batch(
                    len(when), columns | some | {"done_ns": when if outcome == "acked" else None}
                )


def _scenario(summary: CheckSummary) -> dict[str, object]:
    """The scenario that the folder is judged by."""
    count = max((producer.producer for producer in summary.producers), default=0) + 1
    messages = max((producer.account.expected for producer in summary.producers), default=0) or 1
    return {
        "version": 1,
        "title": "Numbered lines, as a consumer printed them",
        "cluster": {"brokers": 1},
        "topics": [{"name": TOPIC, "partitions": 1, "replication-factor": 1}],
        "workload": {"producers": [{"count": count, "topic": TOPIC, "acks": "all", "messages": messages}]},
    }
