"""Counts the records of each partition and leader epoch, and those that no producer of the run sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, facts, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts.leader_history import polled_ns
from kaput.analysis.facts.unexplained_exits import deaths
from kaput.evidence.findings import UnreadPartition
from kaput.verdict.facts import FaultFacts

if TYPE_CHECKING:
    from kaput.analysis.run import Run
    from kaput.analysis.views.rows import Rows


class Logs(Question):
    """Counts records, with lowest and highest offset; and reports the cluster's faults for the verdict."""

    sums = {"log": Sum(("place", "epoch"), ("records", "foreign"), ("low",), ("high",))}

    def of_rows(self, rows: Rows) -> Iterator[Find]:
        """Counts of the log's records."""
        if rows.table == "log":
            without_identity = pl.col("intact") & (pl.col("producer").is_null() | pl.col("seq").is_null())
            yield SumPart(
                "log",
                rows.coded.runs.select(
                    "place",
                    "epoch",
                    records="n",
                    foreign=pl.col("n") * without_identity.cast(pl.Int64),
                    low="offset",
                    high=pl.col("offset") + pl.col("n") - 1,
                ),
            )

    def report(self, run: Run) -> Iterator[Reported]:
        """Partitions that were not read to their end; faults, deaths and leader changes."""
        given, known = run.given, run.partitions
        ends = {place: given.ends.get(place, (None, None)) for place in known.unread}
        unread = [
            UnreadPartition(topic=topic, partition=partition, end_offset=end, drained_to=to)
            for (topic, partition), (end, to) in ends.items()
        ]
        yield findings(unread_partitions=unread)
        yield facts(
            state=given.manifest.state,
            unread_partitions=unread,
            faults=[
                FaultFacts(f.id, f.fault, f.target, f.bit, f.proof, f.effective_ns, f.brokers, f.healed_ns)
                for f in given.faults
            ],
            deaths=deaths(given.cluster_events, given.faults, given.ended_ns),
            troubles=given.manifest.troubles,
            leader_changes=run.leader_history.leader_changes(),
            polled_ns=polled_ns(given.cluster_events),
            end_offsets=known.end_offsets_sum,
            end_offsets_known=bool(given.ends),
        )
