"""From a sealed run folder to its findings: every step of the analysis in the order they need each other.

Each step is DataFrame -> DataFrame; steps that a clean run does not need are not run. What they counted is
gathered in `Account` and put into words by assemble.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kaput.analysis import (
    assemble,
    cases,
    causes,
    commits,
    faults,
    groups,
    inputs,
    latency,
    ledger,
    offsets,
    order,
    outputs,
    timeline,
)
from kaput.analysis.account import Account
from kaput.analysis.load import Frames, load
from kaput.analysis.partitions import Partitions, survey
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder


def analyse(folder: RunFolder, spark: SparkSession) -> Findings:
    """Judges a sealed run folder and writes its analysis/. Raises EvidenceError, AccountingError."""
    given = inputs.read(folder)
    with _readable():
        return _Analysis(given, spark).findings()


@contextmanager
def _readable() -> Iterator[None]:
    """A file that Spark cannot read is the evidence's fault, not ours."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        unreadable = re.search(
            r"\[FAILED_READ_FILE[^]]*\][^\n]*? file (?:file:)?/*(/\S+\.parquet)", str(error)
        )
        if unreadable is None:
            raise
        raise EvidenceError(f"{unreadable[1]}: not a whole Parquet file (its pages cannot be read)") from None


class _Analysis:
    """One run's analysis: the frames that steps share, and the account they fill in."""

    def __init__(self, given: inputs.Inputs, spark: SparkSession) -> None:
        self.given = given
        self.frames: Frames = load(spark, given.evidence, given.groups)
        self._cached: list[DataFrame] = []

    def findings(self) -> Findings:
        """Runs every step, writes the outputs, judges."""
        try:
            self._count()
            self._explain()
            self._measure()
            self._show()
            outputs.write(self.given.evidence.folder, self.ledger, self.homeless, self.frames, self.account)
            return assemble.findings(self.given, self.account)
        finally:
            for frame in self._cached:
                frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._cached.append(frame.persist())
        return frame

    def _count(self) -> None:
        """Fates, and every anomaly that needs no explanation."""
        given, frames = self.given, self.frames
        self.partitions: Partitions = survey(frames, given.end_offsets, given.expected_places)
        self.ledger = self._keep(ledger.build(frames, self.partitions))
        sends_rows = given.evidence.tables["sends"].rows
        self.account = Account(self.partitions, ledger.tally(self.ledger, frames, sends_rows))
        self.steps = groups.steps(frames, frozenset().union(*self.partitions.kinds.values()))
        self.cases = self._keep(cases.together(self._case_steps()))
        self.account.cases = cases.counted(self.cases)
        if self.account.counted(offsets.LOGGED_TWICE):
            raise EvidenceError(self._logged_twice())

    def _case_steps(self) -> Iterator[DataFrame]:
        frames, kinds = self.frames, self.partitions.kinds
        yield offsets.by_offset(frames)
        yield order.reordered(frames)
        if not self.given.groups:
            return
        assigned = [g for g, words in kinds.items() if words & {"assigned", "revoked", "lost"}]
        yield groups.out_of_step(self.steps, assigned)
        yield commits.redelivered(frames)
        if any("committed" in words for words in kinds.values()):
            yield commits.commit_ahead(frames)

    def _logged_twice(self) -> str:
        row = (
            self.cases.where(f"name = '{offsets.LOGGED_TWICE}'")
            .orderBy("topic", "partition", "offset")
            .first()
        )
        assert row is not None
        return (
            f"table log: {row.topic}/{row.partition} offset {row.offset} stands there twice "
            f"with the same message (producer {row.producer}, seq {row.seq})"
        )

    def _explain(self) -> None:
        """Epochs, what each fault reached, and the causes of losses."""
        given, account = self.given, self.account
        # Only the run's own partitions: a fault that moves __consumer_offsets moves no message.
        events = [e for e in given.cluster_events if (e["topic"], e["partition"]) in self.partitions.complete]
        account.timeline = timeline.build(
            events, given.faults, self.partitions.first_offsets, self.partitions.ends
        )
        account.reaches = faults.plan(given.faults, account.timeline, given.replicas)
        self.reached: DataFrame | None = None
        if any(reach.places for reach in account.reaches):
            self.reached = faults.reached_frame(account.reaches, self.frames, self.partitions, given.ended_ns)
            rows = faults.silence(self.ledger, self.reached).collect()
            account.first_acks = {r.fault: r.first_ack_ns for r in rows if r.first_ack_ns is not None}
            account.quiet = {r.fault: r.longest_ns for r in rows if r.longest_ns is not None}
        self.places = causes.places_frame(self.frames, account.timeline, self.partitions.ends)
        self.homeless: DataFrame | None = None
        if account.lost or account.counted("inconsistent-offset"):
            self.homeless = self._keep(
                causes.homeless(
                    self.ledger, self.frames, self.places, given.unacknowledging, account.attempted()
                )
            )
            account.losses = causes.counted(self.homeless).collect()
        if account.counted("inconsistent-offset"):
            assert self.homeless is not None
            account.displaced = causes.inconsistent(self.cases, self.homeless).collect()
        if account.counted("reordered"):
            account.reordered = order.across_leaders(self.cases, self.frames, self.places).collect()

    def _measure(self) -> None:
        """Times: within the faults' windows, latencies, gaps."""
        account = self.account
        spans = account.spans()
        if self.reached is not None and spans:
            rows = faults.in_windows(self.ledger, self.frames, self.reached, spans).collect()
            account.windows = {row.fault: row for row in rows}
        account.latencies = {row.what: row for row in latency.latencies(self.ledger).collect()}
        account.gaps = latency.longest_gaps(self.ledger).collect()

    def _show(self) -> None:
        """Examples, and the counts that only their steps can give."""
        account, tally = self.account, self.account.tally
        shown = [self.cases.where(f"name NOT IN ('{groups.JUMP}', '{offsets.LOGGED_TWICE}')")]
        if account.counted(groups.JUMP):
            skipped = self._keep(cases.together([groups.skipped(self.steps, self.frames)]))
            account.cases += cases.counted(skipped)
            shown.append(skipped)
        if tally.stored("n") or any(tally.fates[o, s] for o in ("unknown", "failed") for s in ("1", "n")):
            shown.append(cases.fates(self.ledger))
        subscribed = self.given.subscribed
        account.unseen = _unseen(account, subscribed)
        if sum(account.unseen.values()):
            shown.append(cases.unseen(self.ledger, subscribed))
        if tally.phantom_records:
            shown.append(cases.phantoms(self.ledger, self.frames))
        if account.lost:
            assert self.homeless is not None
            shown.append(self.homeless.where("lost").selectExpr("'lost' AS name", "*"))
        if len(shown) > 1 or account.cases:
            account.examples = cases.examples(cases.together(shown))


def _unseen(account: Account, subscribed: dict[int, list[str] | None]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for (group, topic), messages in account.tally.unseen.items():
        topics = subscribed.get(group, [])
        if topics is None or topic in topics:
            counts[group] += messages
    return counts
