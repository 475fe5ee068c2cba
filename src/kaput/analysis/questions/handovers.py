"""Deliveries to members around a change of owner.

redelivered because of a rebalance: distinct topic-partition-offsets that were delivered again after the
rebalance assigned their partition (and before it was assigned again), and had been delivered before that.
Without what the group had committed by then, which has another reason, such as a seek. None in share groups,
whose records may go to any member.

First record: the first that a member received of a partition that a rebalance assigned to it the last time.
Resumed: when the last partition that had an owner before was read again: the first record from it that its
new owner received.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import polars as pl

from kaput.analysis.engine.question import Find, Question, Reported, SumPart, findings
from kaput.analysis.engine.sums import Sum
from kaput.analysis.facts import rebalances
from kaput.analysis.run import Run
from kaput.analysis.runs.columns import none
from kaput.analysis.runs.cutting import READ, borders, overlay
from kaput.analysis.views.places import Places
from kaput.evidence.findings_claims import Claim
from kaput.evidence.findings_parts import Handover, RebalanceFindings

_HANDOVERS = ("group", "place", "assigned_ns", "rebalance", "member", "again")


@dataclass(frozen=True)
class Handovers(Question):
    """`handovers`: when each partition was assigned, and in which rebalance."""

    handovers: pl.DataFrame = field(default_factory=pl.DataFrame)

    sums = {
        "redelivered": Sum(("rebalance",), ("n",)),
        "first_records": Sum(("member", "rebalance"), (), ("at_ns",)),
        "resumed": Sum(("rebalance", "place"), (), ("at_ns",)),
    }

    def before_places(self, run: Run) -> Handovers:
        names = run.names
        rows = [
            (
                names.groups.index(one.group),
                names.code(one.place),
                one.at_ns,
                one.rebalance,
                names.members.index(one.member),
                int(one.again),
            )
            for one in run.rebalances.handovers
        ]
        handovers = pl.DataFrame(rows, schema=none(*_HANDOVERS).schema, orient="row").unique()
        last = pl.col("assigned_ns") == pl.col("assigned_ns").max().over("rebalance", "member")
        return replace(self, handovers=handovers.with_columns(last=last))

    def of_places(self, places: Places) -> Iterator[Find]:
        if places.delivered_again.height:
            again = redelivered(places.delivered_again, self.handovers, places.committed)
            yield SumPart("redelivered", again)
        # The first record of each member after its last assignment in each rebalance, and of each partition
        # that was owned before.
        owned = places.deliveries.filter("owns").join(self.handovers, on=[*_ASSIGNMENT, "member"])
        first = owned.rename({"polled_ns_first": "at_ns"})
        yield SumPart("first_records", first.filter("last"))
        yield SumPart("resumed", first.filter(again=1))

    def report(self, run: Run) -> Iterator[Reported]:
        """The rebalances of all groups, without the ends of groups."""
        given, every = run.given, run.rebalances.found
        static = {spec.id for spec in given.group_specs if spec.static}
        rebalances.explain(
            every, given.group_events, given.faults, given.cluster_events, given.sessions_ns, static
        )
        again = dict(run.sums["redelivered"].select("rebalance", "n").iter_rows())
        first = {(member, number): at_ns for member, number, at_ns in run.sums["first_records"].iter_rows()}
        _set_resumed(run)
        rows = [
            RebalanceFindings(
                group=one.group,
                trigger=one.trigger,
                started_ns=one.started_ns,
                ended_ns=one.ended_ns,
                resumed_ns=one.resumed_ns,
                unresumed_partitions=one.unresumed,
                members=one.members,
                unowned_partition_seconds=one.unowned_ns / 1e9,
                redelivered=again.get(number, 0),
                handovers=[
                    Handover(
                        member=member,
                        revoked_ns=one.revoked.get(member),
                        assigned_ns=one.assigned.get(member),
                        first_record_ns=first.get((given.names.members.index(member), number)),
                    )
                    for member in sorted({*one.revoked, *one.assigned})
                ],
            )
            for number, one in enumerate(every)
            if not one.closes
        ]
        yield findings(rebalances=rows, claims=[_claim(one) for one in rows])


def _claim(one: RebalanceFindings) -> Claim:
    return Claim(
        kind="rebalance",
        group=one.group,
        from_ns=one.started_ns,
        to_ns=None if one.took_ns is None else one.started_ns + one.took_ns,
        figures={
            "members": one.members,
            "unowned_partition_seconds": one.unowned_partition_seconds,
            "unresumed_partitions": one.unresumed_partitions,
        },
        decidable=one.trigger.removesuffix(rebalances.STAYED) != rebalances.UNKNOWN,
        why=f"trigger: {one.trigger}",
    )


def _set_resumed(run: Run) -> None:
    """Sets when the last partition owned before each rebalance was read again, and how many were not."""
    rebalances_ = run.rebalances.found
    again = {(one.rebalance, run.names.code(one.place)) for one in run.rebalances.handovers if one.again}
    for number, place, at_ns in run.sums["resumed"].iter_rows():
        rebalances_[number].resumed_ns = max(rebalances_[number].resumed_ns or at_ns, at_ns)
        again.discard((number, place))
    for number, n in Counter(number for number, _ in again).items():
        rebalances_[number].unresumed = n


_ASSIGNMENT = ["group", "place", "assigned_ns"]


def redelivered(twice: pl.DataFrame, handovers: pl.DataFrame, commits: pl.DataFrame) -> pl.DataFrame:
    """(rebalance, n): offsets redelivered because of it. `twice`: Places.delivered_again; `commits`: (group,
    place, offset, at_ns).
    """
    parts, _ = overlay([twice, borders(commits, READ)], READ)
    by_time = commits.sort("at_ns").select(
        *READ.keys, "at_ns", committed=pl.col("offset").cum_max().over(READ.keys)
    )
    given = handovers.sort("assigned_ns").join_asof(
        by_time, left_on="assigned_ns", right_on="at_ns", by=READ.keys, allow_exact_matches=False,
        check_sortedness=False,
    )  # fmt: skip
    first = pl.col("assigned_ns").min().over("part")
    later = parts.filter(pl.col("assigned_ns") > first).join(given, on=_ASSIGNMENT)
    later = later.filter(pl.col("offset") >= pl.col("committed").fill_null(0))
    # Counted once per rebalance, even if delivered again after two assignments of the same rebalance.
    once = later.unique(["part", "rebalance"])
    return once.group_by("rebalance").agg(pl.col("n").sum())
