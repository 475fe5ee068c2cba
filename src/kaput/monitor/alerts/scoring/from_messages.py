"""Samples of what producers saw: counts, and how long messages have been waiting, by partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kaput.core import FOREVER_NS, SECOND
from kaput.evidence.clusters import with_clusters
from kaput.evidence.parquet import table_of
from kaput.evidence.reading import Evidence
from kaput.evidence.schemas import TABLES
from kaput.monitor.signals import Sample

Longs = npt.NDArray[np.int64]
_COLUMNS = ("topic", "partition", "attempt_ns", "done_ns", "outcome", "offset", "cluster")
_NO_PARTITION = -1  # the client did not report it


@dataclass(frozen=True)
class Sends:
    """The attempts of a run, by time. `done_ns`: FOREVER_NS without an outcome; `offset`: -1 if none is
    known.
    """

    topic: npt.NDArray[np.object_]
    partition: Longs
    attempt_ns: Longs
    done_ns: Longs
    acked: npt.NDArray[np.bool_]
    failed: npt.NDArray[np.bool_]
    offset: Longs

    @classmethod
    def of(cls, evidence: Evidence) -> Sends:
        """Reads them. Raises EvidenceError."""
        found = evidence.tables["sends"]
        schema = pa.schema(
            [
                field
                for field in TABLES["sends"].schema
                if field.name in _COLUMNS and field.name not in found.lacking
            ]
        )
        tables = [table_of(path, schema) for path in found.files]
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        return cls._of_table(table.sort_by("attempt_ns"))

    @classmethod
    def _of_table(cls, table: pa.Table) -> Sends:
        topics = table["topic"]
        if "cluster" in table.column_names:
            topics = with_clusters(table["cluster"], topics)
        outcome = table["outcome"].to_numpy(zero_copy_only=False)
        return cls(
            topics.to_numpy(zero_copy_only=False),
            _longs(table, "partition", _NO_PARTITION),
            _longs(table, "attempt_ns", 0),
            _longs(table, "done_ns", FOREVER_NS),
            outcome == "acked",
            outcome == "failed",
            _longs(table, "offset", -1),
        )

    def __len__(self) -> int:
        return len(self.attempt_ns)

    @property
    def first_ns(self) -> int:
        """The time of the first attempt."""
        return int(self.attempt_ns[0])

    @property
    def last_ns(self) -> int:
        """The time of the last attempt."""
        return int(self.attempt_ns[-1])

    def places(self) -> Iterator[tuple[str, int, Sends]]:
        """The attempts of each partition, in order."""
        names, topics = np.unique(self.topic.astype(str), return_inverse=True)
        for topic, partition in sorted(set(zip(topics.tolist(), self.partition.tolist(), strict=True))):
            yield str(names[topic]), partition, self._only((topics == topic) & (self.partition == partition))

    def _only(self, rows: npt.NDArray[np.bool_]) -> Sends:
        return Sends(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def message_samples(sends: Sends, moments: Longs) -> Iterator[Sample]:
    """Samples at each of these times."""
    for topic, partition, sent in sends.places():
        labels = {"topic": topic, "partition": str(partition)}
        columns = {
            "kaput_messages_sent_total": _counted(sent.attempt_ns, moments),
            "kaput_messages_acked_total": _counted(sent.done_ns[sent.acked], moments),
            "kaput_messages_failed_total": _counted(sent.done_ns[sent.failed], moments),
            "kaput_unacknowledged_seconds": _waiting_s(sent, moments),
        }
        for name, values in columns.items():
            for at_ns, value in zip(moments.tolist(), values.tolist(), strict=True):
                yield Sample(name, float(value), at_ns, labels)


def _counted(times: Longs, moments: Longs) -> Longs:
    """How many of `times` have passed at each moment."""
    return np.searchsorted(np.sort(times), moments, side="right")


def _waiting_s(sent: Sends, moments: Longs) -> npt.NDArray[np.float64]:
    """Seconds since the last acknowledgement, or since the oldest waiting attempt if that was later; 0 if
    none waits.

    The oldest attempt without an outcome at a moment is the first at which the running maximum of outcome
    times is later.
    """
    latest = np.maximum.accumulate(sent.done_ns)
    first = np.searchsorted(latest, moments, side="right")
    waits = first < np.searchsorted(sent.attempt_ns, moments, side="right")
    oldest = sent.attempt_ns[np.minimum(first, len(sent) - 1)]
    acks = np.sort(sent.done_ns[sent.acked])
    before = np.searchsorted(acks, moments, side="right") - 1
    last_ack = np.where(before >= 0, acks[np.maximum(before, 0)] if len(acks) else 0, 0)
    return np.where(waits, (moments - np.maximum(oldest, last_ack)) / SECOND, 0.0)


def _longs(table: pa.Table, name: str, null: int) -> Longs:
    filled: Longs = table[name].fill_null(null).to_numpy().astype(np.int64)
    return filled
