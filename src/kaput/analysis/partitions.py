"""The partitions of a run: which there are, which were read to their end, what the log holds of each epoch.

One small query over the big tables; everything after it is a dictionary on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kaput.analysis.load import Frames, local
from kaput.analysis.timeline import Place


@dataclass(frozen=True)
class Partitions:
    """`complete`: whether a known partition was read to its end. `first_offsets`: by epoch, in the log.

    `ends`: the offset after the last, from end_offsets, else from the log.
    `kinds`: words of group_events by group index.
    """

    complete: Mapping[Place, bool]
    first_offsets: Mapping[Place, Mapping[int, int]]
    ends: Mapping[Place, int]
    log_records: int
    foreign_records: int
    end_offsets_sum: int
    kinds: Mapping[int, frozenset[str]]

    def topics(self) -> Mapping[str, bool]:
        """The known topics, and whether every partition of theirs was read to its end."""
        topics: dict[str, bool] = {}
        for (topic, _), complete in self.complete.items():
            topics[topic] = topics.get(topic, True) and complete
        return topics

    def unread_frame(self, frames: Frames) -> DataFrame:
        """(topic, partition, complete), to be broadcast; partition null stands for the whole topic."""
        rows: list[dict[str, object]] = [
            {"topic": topic, "partition": partition, "complete": complete}
            for (topic, partition), complete in self.complete.items()
        ]
        rows += [{"topic": t, "partition": None, "complete": done} for t, done in self.topics().items()]
        schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("complete", pa.bool_())])
        return local(frames.spark, rows, schema)


def survey(frames: Frames, end_offsets: Iterable[Mapping[str, Any]], expected: Iterable[Place]) -> Partitions:
    """One pass over the big tables; `expected` are the partitions of the scenario's topics."""
    records = foreign = 0
    known: set[Place] = set(expected)
    first: dict[Place, dict[int, int]] = {}
    after_last: dict[Place, int] = {}
    kinds: dict[int, frozenset[str]] = {}
    for row in _summary(frames).collect():
        if row.kinds is not None:
            kinds[row.grp] = frozenset(row.kinds)
        if row.partition is None:
            continue
        place = (row.topic, row.partition)
        known.add(place)
        if row.last is not None:
            records += row.records
            foreign += row.foreign
            after_last[place] = max(after_last.get(place, 0), row.last + 1)
            if row.leader_epoch is not None:
                first.setdefault(place, {})[row.leader_epoch] = row.first
    ends: dict[Place, int] = {}
    drained: dict[Place, int] = {}
    for end in end_offsets:
        place = (end["topic"], end["partition"])
        known.add(place)
        ends[place], drained[place] = end["end_offset"], end["drained_to"]
    return Partitions(
        complete={p: p in ends and drained[p] == ends[p] for p in sorted(known)},
        first_offsets=first,
        ends={**after_last, **ends},
        log_records=records,
        foreign_records=foreign,
        end_offsets_sum=sum(ends.values()),
        kinds=kinds,
    )


def _summary(frames: Frames) -> DataFrame:
    log = frames.log.groupBy("topic", "partition", "leader_epoch").agg(
        F.count("*").alias("records"),
        F.expr("count_if(intact AND (producer IS NULL OR seq IS NULL))").alias("foreign"),
        F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )
    others = [
        table.groupBy("topic", "partition").agg(F.count("*").alias("records"))
        for table in (frames.sends, frames.deliveries)
    ]
    kinds = frames.group_events.groupBy("grp").agg(F.collect_set("kind").alias("kinds"))
    summary = log
    for other in (*others, kinds):
        summary = summary.unionByName(other, allowMissingColumns=True)
    return summary
