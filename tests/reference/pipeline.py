"""From a sealed run folder to its findings: every step of the analysis in the order they need each other.

Each step is DataFrame -> DataFrame; steps that a clean run does not need are not run, and steps that do not
need each other run side by side. What they count is gathered in `Account`, and told by assemble.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kaput.analysis import assemble, inputs, rebalances, replicas, timeline
from kaput.analysis.account import Account, Silence
from kaput.analysis.deposed import Deposed
from kaput.analysis.faults import plan
from kaput.analysis.names import Place
from kaput.errors import EvidenceError
from kaput.evidence.findings import Findings
from reference import (
    cases,
    causes,
    commits,
    faults,
    groups,
    handovers,
    latency,
    ledger,
    offsets,
    order,
    outputs,
    transactions,
)
from reference.load import Frames, load
from reference.survey import survey
from reference.tally import tally
from reference.words import KIND


def analyse(given: inputs.Inputs, spark: SparkContext, with_ledger: bool = True) -> Findings:
    """Judges a checked run folder and writes its analysis/. Raises EvidenceError, AccountingError."""
    return _Analysis(given, SparkSession(spark), with_ledger).findings()


def _side_by_side(*steps: Callable[[], None]) -> None:
    """Runs steps that do not need each other; raises what the first of them raised."""
    with ThreadPoolExecutor(len(steps), "kaput-analysis") as pool:
        for future in [pool.submit(step) for step in steps]:
            future.result()


class _Analysis:
    """One run's analysis: the frames that steps share, and the account they fill in."""

    def __init__(self, given: inputs.Inputs, spark: SparkSession, with_ledger: bool) -> None:
        self.given, self.with_ledger = given, with_ledger
        self.frames: Frames = load(spark, given)
        self._cached: list[DataFrame] = []

    def findings(self) -> Findings:
        """Runs every step, writes the outputs, judges."""
        try:
            self._count_fates()
            _side_by_side(self._count_cases, self._explain_losses, self._measure)
            self._count_fates_as_cases()
            self._explain_the_rest()
            _side_by_side(self._show, self._write)
            self._depose()
            return assemble.findings(self.given, self.account)
        finally:
            for frame in self._cached:
                frame.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._cached.append(frame.persist())
        return frame

    def _count_fates(self) -> None:
        """The ledger and its sums."""
        given, frames = self.given, self.frames
        partitions = survey(frames, given.ends, given.expected_places)
        self.ledger = self._keep(ledger.build(frames, partitions))
        counts = tally(self.ledger, frames.names, given.evidence.tables["sends"].rows)
        self.partitions, self.counts, self.account = partitions, counts, Account(partitions, counts)
        if counts.stored_twice:
            self._check_log()

    def _check_log(self) -> None:
        twice = offsets.logged_twice(self.frames).first()
        if twice is not None:
            topic, partition = self.frames.names.place(twice.place) or ("", 0)
            raise EvidenceError(
                f"table log: {topic}/{partition} offset {twice.offset} is there {twice.times} times "
                f"with the same message (producer {twice.producer}, seq {twice.seq})"
            )

    def _count_cases(self) -> None:
        """Every anomaly that the ledger itself does not show."""
        kinds = self.partitions.kinds
        self.steps = groups.steps(self.frames, frozenset().union(*kinds.values()))
        first = self._keep(cases.together([*self._first_looks(), *self._of_transactions()]))
        self.account.transactions = transactions.counted(self.frames)
        counts = cases.counted(first)
        self.cases, self.account.cases = first, counts
        second = list(self._second_looks())
        if second:
            closer = self._keep(cases.together(second))
            self.account.cases = counts + cases.counted(closer)
            self.cases = cases.together([first, closer])
        self.account.by_member = cases.by_member(self.cases)
        if self.account.counted("redelivered"):
            rows = commits.receivers(self.frames, self.cases).collect()
            self.account.receivers = {(row.grp, row.member, row.flag): row.n for row in rows}

    def _count_fates_as_cases(self) -> None:
        """The anomalies that are fates."""
        cases, counts, fates = self.account.cases, self.counts, self.counts.fates
        cases["duplicate", None, False] = counts.stored("n")
        cases["recovered", None, False] = fates["unknown", "1"] + fates["unknown", "n"]
        cases["ghost", None, False] = fates["failed", "1"] + fates["failed", "n"]
        cases["phantom", None, False] = counts.phantom_records
        for (group, topic), messages in counts.unseen.items():
            topics = self.given.subscribed.get(group, [])
            if topics is None or topic in topics:
                cases["unseen", group, False] += messages
        for (group, _, stored, delivered), messages in counts.group_fates.items():
            if stored == "0" and delivered != "0":
                cases["vanished", group, False] += messages

    def _first_looks(self) -> Iterator[DataFrame]:
        """What settles a clean run; where the ledger shows that it is none, the full steps at once."""
        frames, counts, partitions = self.frames, self.counts, self.partitions
        in_doubt = counts.unsettled or partitions.damaged
        yield offsets.by_offset(frames) if in_doubt else offsets.shared(frames)
        doubles = counts.stored_twice or counts.phantom_records
        yield order.reordered(frames) if doubles else order.inverted(frames)
        if not frames.names.groups:
            return
        yield groups.out_of_step(self.steps, frames)
        yield commits.redelivered(frames)
        if any(KIND["committed"] in kinds for kinds in partitions.kinds.values()):
            yield commits.commit_ahead(frames, partitions.begun_ns)

    def _of_transactions(self) -> Iterator[DataFrame]:
        """What became of transactions and of pipes' inputs."""
        given, frames = self.given, self.frames
        careful = [n for n, word in enumerate(given.isolations) if word == "read_committed"]
        drained = [n for n, done in enumerate(given.drained) if done]
        yield transactions.odd(self.ledger)
        yield transactions.aborted_read(self.ledger, careful)
        yield transactions.hanging(frames, given)
        if given.pipes:
            yield transactions.processed(self.ledger, frames, given.pipes, drained)

    def _second_looks(self) -> Iterator[DataFrame]:
        """The full steps where a cheap look has found something."""
        if self.account.counted(offsets.SHARED):
            yield offsets.by_offset(self.frames)
        if self.account.counted(order.INVERTED):
            yield order.reordered(self.frames)
        if self.account.counted(groups.JUMP):
            yield groups.skipped(self.steps, self.frames)

    def _explain_losses(self) -> None:
        """Epochs, what each fault reached, and the causes of losses."""
        given, account = self.given, self.account
        partitions = account.partitions
        # Only the run's own partitions: a fault that moves __consumer_offsets moves no message.
        events = [e for e in given.cluster_events if (e["topic"], e["partition"]) in partitions.complete]
        account.timeline = timeline.build(events, given.faults, partitions.logged, partitions.ends)
        account.reaches = plan(given.faults, account.timeline, given.replicas)
        self.reached: DataFrame | None = None
        if any(reach.places for reach in account.reaches):
            self.reached = faults.reached_frame(account.reaches, self.frames, partitions, given.ended_ns)
            rows = faults.silence(self.ledger, self.reached).collect()
            account.first_acks = {r.fault: r.first_ack_ns for r in rows if r.first_ack_ns is not None}
            account.quiet = {r.fault: r.longest_ns for r in rows if r.longest_ns is not None}
            read = faults.first_deliveries(self.ledger, self.frames, self.reached).collect()
            account.first_deliveries = {r.fault: r.at_ns for r in read}
        self.places = causes.places_frame(self.frames, account.timeline, partitions.ends)
        self.homeless: DataFrame | None = None
        if account.lost:
            account.losses = causes.counted(self._find_homeless()).collect()
        if any(s == "0" and d != "0" for _, _, s, d in self.counts.group_fates):
            asked = self.given.unacknowledging, account.attempted()
            account.vanished = causes.vanished(self.ledger, self.frames, self.places, *asked).collect()
        if self.reached is not None:
            rows = faults.in_windows(self.ledger, self.frames, self.reached, account.spans()).collect()
            account.window_counts = {row.fault: row for row in rows}

    def _find_homeless(self) -> DataFrame:
        if self.homeless is None:
            silent, attempted = self.given.unacknowledging, self.account.attempted()
            self.homeless = self._keep(
                causes.homeless(self.ledger, self.frames, self.places, silent, attempted)
            )
        return self.homeless

    def _explain_the_rest(self) -> None:
        """What explains inconsistent offsets and reordering, where there is any."""
        account, given = self.account, self.given
        account.rebalances = rebalances.find(given.group_events, given.manifest.ended_ns)
        if self.frames.names.groups:
            handovers.count(self.frames, self.steps, account)
        if account.counted("inconsistent-offset"):
            account.displaced = causes.inconsistent(self.cases, self._find_homeless()).collect()
        if account.counted("reordered"):
            account.reordered = order.across_leaders(self.cases, self.frames, self.places).collect()

    def _depose(self) -> None:
        """What deposed leaders acknowledged, and what of it their replicas were seen to hold."""
        account, names = self.account, self.frames.names
        if any(c.is_election for changes in account.timeline.changes.values() for c in changes):
            rows = causes.deposed(self._find_homeless(), self.given.healed).collect()
            account.deposed = [
                Deposed(**{**row.asDict(), "place": place})
                for row in rows
                if (place := names.place(row.place)) is not None
            ]
            first = (
                self.ledger.where("outcome = 'acked' AND leader_epoch IS NOT NULL AND done_ns IS NOT NULL")
                .groupBy("place", "leader_epoch", "producer")
                .agg(F.min("done_ns").alias("first_ns"))
                .collect()
            )
            under: dict[tuple[Place, int], dict[int, int]] = defaultdict(dict)
            for row in first:
                if (place := names.place(row.place)) is not None:
                    under[place, row.leader_epoch][row.producer] = row.first_ns
            account.under = under
        account.seen = replicas.seen(self.given)

    def _measure(self) -> None:
        """Latencies and gaps."""
        rows = latency.latencies(self.ledger, len(self.frames.names.groups)).collect()
        self.account.latencies = {row.what: row for row in rows}
        self.account.gaps = [
            Silence(row.producer, row.place, row.gap.from_ns, row.gap.to_ns)
            for row in latency.longest_gaps(self.ledger).collect()
        ]

    def _show(self) -> None:
        """Examples, and the counts that only their steps can give."""
        account, counts, names = self.account, self.counts, self.frames.names
        shown = [cases.anomalies(self.cases)] if account.cases else []
        if counts.stored("n") or any(counts.fates[o, s] for o in ("unknown", "failed") for s in ("1", "n")):
            shown.append(cases.fates(self.ledger))
        subscribed = self.given.subscribed
        if any(name == "vanished" for name, _, _ in account.cases):
            shown.append(cases.vanished(causes.gone(self.ledger, self.frames)))
        if any(name == "unseen" for name, _, _ in account.cases):
            shown.append(cases.unseen(self.ledger, names, subscribed))
        if counts.phantom_records:
            shown.append(cases.phantoms(self.ledger, self.frames))
        if account.lost:
            shown.append(self._find_homeless().where("lost").selectExpr("'lost' AS name", "*"))
        if shown:
            account.examples = cases.examples(cases.together(shown), names)

    def _write(self) -> None:
        lost = self._find_homeless() if self.account.lost else None
        outputs.write(self.given.evidence.folder, self.ledger, lost, self.frames, self.with_ledger)
