"""The closer look, step by step: from the sums of the engine to the account of a run.

Raises NotSettled where the sums and a second look are not enough: then the analysis in SQL judges the run.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from pyspark.sql import SparkSession

from kaput.analysis import latency, outputs, replicas
from kaput.analysis.account import Account
from kaput.analysis.closer import (
    acks,
    around,
    commits,
    deposed,
    examples,
    losses,
    order,
    places,
    redelivery,
    steps,
)
from kaput.analysis.closer.found import Records
from kaput.analysis.closer.full import NotSettled
from kaput.analysis.dense.counted import Counted
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.scan import Answers, Questions, Zones, scan, zones
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.streams import longest
from kaput.analysis.inputs import Inputs
from kaput.analysis.names import Place
from kaput.errors import AccountingError


class Look:
    """One run's closer look: each step fills in its part of the account."""

    def __init__(self, spark: SparkSession, given: Inputs, counted: Counted) -> None:
        self.spark, self.given, self.counted = spark, given, counted
        self.summary, self.names = counted.summary, given.names
        self.account = Account(counted.partitions, counted.tally)
        self.account.timeline, self.account.reaches = counted.timeline, counted.reaches
        self.shown = examples.Shown(self.names)

    def account_for(self) -> Account:
        """Every step, and the outputs."""
        self._refuse()
        self._measure()
        self.steps = steps.with_joints(self.summary.piles["steps"], self.summary.steps)
        self._ask()
        self._lost()
        self._places()
        self._order()
        self._groups()
        self._faults()
        self.account.count_unseen(self.given.subscribed)
        self.account.examples = self.shown.all(self.summary, self.given.subscribed)
        islands = losses.islands(self.summary.piles["astray"], self.summary.edges)
        outputs.write(self.given, self.summary.rates, self.explained, islands)
        self._deposed()
        return self.account

    def _refuse(self) -> None:
        if self.summary.piles.full:
            raise NotSettled("too many messages want a closer look")
        for runs in self.summary.log_runs.values():
            if any(a.high >= b.low for a, b in pairwise(sorted(runs))):
                raise NotSettled("files of the log overlap in their offsets")
        for found in self.summary.order.values():
            if any(a.high > b.low for a, b in pairwise(sorted(found))):
                raise NotSettled("messages far apart are out of order")

    def _measure(self) -> None:
        """Latencies and silences."""
        self.account.latencies = latency.measured(self.summary, len(self.given.groups))
        gaps = []
        for stream, ends in self.summary.active.items():
            gap = longest(self.summary.acks.get(stream, []), ends)
            if gap is None:
                raise NotSettled("acknowledgements are in no order of time")
            gaps.append(latency.Silence(*stream, gap))
        self.account.gaps = gaps

    def _ask(self) -> None:
        """The second look at the evidence, where anything is open."""
        piles = self.summary.piles
        at: dict[int, list[Ints]] = {}
        for name in ("claims", "broken", "nameless"):
            for (place,), rows in grouped(piles[name]["place"]):
                at.setdefault(place, []).append(piles[name]["offset"][rows])
        asked = {place: _points(np.concatenate(offsets)) for place, offsets in at.items()}
        for place, zone in steps.holes(self.steps, self.summary.log_runs).items():
            asked[place] = _both(asked.get(place), zone)
        overlaps = {key: redelivery.overlaps(runs) for key, runs in self.summary.delivery_runs.items()}
        self.overlaps = {key: zone for key, zone in overlaps.items() if zone is not None}
        self.answers = self._scan(Questions(log=asked, deliveries=self.overlaps))
        self.records = Records(self.answers.piles["log"])

    def _scan(self, questions: Questions) -> Answers:
        answers = scan(self.spark, self.given.evidence, self.counted.context, questions)
        if answers.piles.full:
            raise NotSettled("too much of the evidence wants a second look")
        return answers

    def _lost(self) -> None:
        """What explains each acknowledgement that is not borne out."""
        account, counted = self.account, self.counted
        account.first_acks = around.first_acks(
            counted.context.reached, self.summary, counted.partitions, self.names
        )
        account.quiet = around.silences(
            counted.context.reached,
            self.summary,
            lambda one: acks.times(self.given.evidence, self.names, one),
        )
        self.explained = losses.explain(
            self.summary,
            account.timeline,
            counted.partitions.ends,
            self.records,
            self.names,
            self.given.unacknowledging,
            account.attempted(),
        )
        lost = int(np.count_nonzero(self.explained.lost))
        if lost != account.lost:
            raise AccountingError(f"{lost} messages are lost one by one, but {account.lost} in sum")
        account.losses = self.explained.kinds()
        self.shown.add(self.explained.examples(self.names))

    def _deposed(self) -> None:
        """What deposed leaders acknowledged, and what of it their replicas were seen to hold."""
        account = self.account
        account.deposed = deposed.deposed(self.explained, self.given.healed, self.names)
        under: dict[tuple[Place, int], int] = {}
        for (_, code, epoch), at_ns in self.summary.under.items():
            place = self.names.place(code) if code != NULL else None
            if place is not None:
                under[place, epoch] = min(under.get((place, epoch), at_ns), at_ns)
        account.under = under
        account.seen = replicas.seen(self.given)

    def _places(self) -> None:
        """Offsets under more than one name, and damaged ones."""
        inconsistent = places.inconsistent(self.summary.piles, self.answers.piles["log"])
        corrupt = places.corrupt(self.summary.piles, self.answers.piles["log"])
        self._count("inconsistent-offset", inconsistent)
        self._count("corrupt", corrupt)
        self.shown.put("inconsistent-offset", inconsistent)
        self.shown.put("corrupt", corrupt)
        self.account.displaced = places.displaced(inconsistent, self.explained)

    def _order(self) -> None:
        """Messages out of order."""
        rows = order.reordered(self.summary.piles["disordered"])
        self._count("reordered", rows)
        self.shown.put("reordered", rows, ("producer", "seq"))
        elections = {
            self.names.code(place): [c.at_ns for c in changes if c.is_election]
            for place, changes in self.account.timeline.changes.items()
        }
        self.account.reordered = order.across_leaders(rows, elections)

    def _count(self, name: str, rows: dict[str, Ints]) -> None:
        """Counts cases by group and flag, as far as they have them."""
        count = len(next(iter(rows.values())))
        groups = rows["grp"].tolist() if "grp" in rows else [None] * count
        flags = rows["flag"].tolist() if "flag" in rows else [0] * count
        for group, flag in zip(groups, flags, strict=True):
            self.account.cases[name, group, bool(flag)] += 1

    def _groups(self) -> None:
        """What groups were handed and committed."""
        kept = steps.skips(self.steps, self.summary.log_runs, self.records)
        for kind, name in steps.NAMES.items():
            rows = steps.rows_of(self.steps, kind, kept)
            self._count(name, rows)
            self.shown.put(name, rows)
        handed = self.answers.piles["deliveries"]
        again = redelivery.redelivered(handed, self.overlaps, self.counted.commits)
        self._count("redelivered", again)
        self.shown.put("redelivered", again)
        self._commits(again)

    def _commits(self, again: dict[str, Ints]) -> None:
        counted = self.counted
        repeated = {
            (group, place): commits.Again(*(again[name][rows] for name in ("offset", "times", "first_ns")))
            for (group, place), rows in grouped(again["grp"], again["place"])
        }
        cuts, first = counted.context.commits, counted.first_positions
        known = commits.buckets(self.summary, cuts, first, repeated, self.records)
        asked = commits.open_questions(known, counted.commits)
        if asked:
            answers = self._scan(asked)
            commits.settle(known, asked, answers.piles["deliveries"], Records(answers.piles["log"]), first)
        found = list(commits.ahead(known, counted.commits))
        self.account.cases.update(("commit-ahead", commit.grp, False) for commit in found)
        self.shown.put_commits(found)

    def _faults(self) -> None:
        """Attempts and losses in each fault's windows."""
        times = self.account.spans()
        if not times:
            return
        asked = around.spans(times, self.counted.context.reached)
        counts = self._scan(Questions(spans=asked)).counts
        self.account.windows = around.windows(times, asked, counts, self.explained)


def _points(offsets: Ints) -> Zones:
    known = np.unique(offsets[offsets != NULL])
    return Zones(known, known + 1)


def _both(one: Zones | None, other: Zones) -> Zones:
    if one is None:
        return other
    return zones(np.concatenate([one.starts, other.starts]), np.concatenate([one.ends, other.ends]))
