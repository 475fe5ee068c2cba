"""Groups: type, members, rate, longest time between commits, and lag.

Not here: counting records, which the tasks do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from kaput.analysis.engine.question import Question, Reported, group, group_facts
from kaput.analysis.facts.assignments import place_of
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.run import Run
from kaput.core import TopicPartition, cluster_and_topic
from kaput.evidence.findings_parts import Lag, MemberFindings, ShareMemberFindings
from kaput.evidence.schemas import SHARE_EVENT_KINDS
from kaput.scenario.anomalies import GROUP_ANOMALIES


class Groups(Question):
    """Reports groups. Runs on the driver only."""

    def report(self, run: Run) -> Iterator[Reported]:
        given = run.given
        for index, name in enumerate(given.groups):
            yield group(
                index,
                group=name,
                type=given.types[index],
                drained=given.drained[index],
                isolation=given.isolations[index],
                delivered_per_s=_per_s(run, index),
                longest_commit_gap_ms=_commit_gap_ms(given, name),
                lag=_lag(run, index),
                members=_share_members(run, index) or _members(run, index),
            )
            yield group_facts(index, group=name, drained=given.drained[index])


def _per_s(run: Run, index: int) -> float | None:
    """Records per second, from the first attempt to the last delivery; None without these."""
    mine = run.sums["delivered"].filter(group=index)
    first_ns, last_ns = run.sums["sent"]["begin_ns"].min(), mine["last_ns"].max()
    if not isinstance(first_ns, int) or not isinstance(last_ns, int) or last_ns <= first_ns:
        return None
    return int(mine["records"].sum()) / ((last_ns - first_ns) / 1e9)


def _commit_gap_ms(given: Inputs, group: str) -> float | None:
    """The longest time between two commits; None if there are fewer."""
    times = sorted(e["at_ns"] for e in given.group_events if (e["group"], e["kind"]) == (group, "committed"))
    gaps = [later - one for one, later in pairwise(times)]
    return max(gaps) / 1e6 if gaps else None


def _members(run: Run, index: int) -> list[MemberFindings]:
    """Every member that any row names, including idle ones."""
    given, names = run.given, run.names
    events = [e for e in given.group_events if e["group"] == given.groups[index]]
    delivered = run.sums["delivered"].filter(group=index).group_by("member").agg(pl.col("records").sum())
    records = {names.members[m]: n for m, n in delivered.iter_rows()}
    refused = Counter(e["member"] for e in events if e["kind"] == "refused")
    return [
        MemberFindings(
            member=m,
            delivered=records.get(m, 0),
            commits_refused=refused[m],
            redelivered_after_commit=run.totals.by_member["redelivered", index, names.members.index(m), True],
            anomalies=_anomalies(run, index, names.members.index(m)),
        )
        for m in sorted({e["member"] for e in events} | set(records))
    ]


def _anomalies(run: Run, index: int, member: int) -> dict[str, int]:
    cases = run.totals.by_member
    counts = {name: sum(cases[name, index, member, f] for f in (False, True)) for name in GROUP_ANOMALIES}
    return {name: n for name, n in counts.items() if n}


def _share_members(run: Run, index: int) -> list[ShareMemberFindings]:
    """The members of a share group by name; empty for other groups."""
    counts = run.sums["shared"].filter(group=index)
    records = {
        (member, kind): n for member, kind, n in counts.select("member", "kind", "records").iter_rows()
    }
    kinds = {
        "delivered": "acquired",
        **{kind: kind for kind in ("accepted", "released", "rejected", "failed")},
    }
    return [
        ShareMemberFindings(
            member=run.names.members[member],
            **{name: records.get((member, SHARE_EVENT_KINDS.index(kind)), 0) for name, kind in kinds.items()},
        )
        for member in sorted(set(counts["member"]))
    ]


def _lag(run: Run, index: int) -> Lag:
    """The greatest lag, and at the end, in the group's cluster; of that the offsets behind the last record of
    a log that was read to its end.
    """
    ends, after_last = run.given.ends, run.partitions.after_last
    greatest = max((one.lag for one in run.given.lags.get(run.given.groups[index], ())), default=None)
    positions = _positions(run, index)
    if positions is None:
        return Lag(max=greatest, final=None)
    return Lag(
        max=greatest,
        final=sum(max(0, ends[place][0] - offset) for place, offset in positions.items()),
        final_without_record=sum(
            max(0, ends[place][0] - max(offset, after_last.get(place, 0)))
            for place, offset in positions.items()
            if run.partitions.complete[place]
        ),
    )


def _positions(run: Run, index: int) -> dict[TopicPartition, int] | None:
    """By partition, where the group was at the end: what it had committed, else where it began. None if
    commits or an end offset are unknown.
    """
    given, name = run.given, run.given.groups[index]
    known = {
        place_of(event)
        for event in given.group_events
        if (event["group"], event["kind"]) == (name, "committed") and event["offset"] is not None
    }
    read = given.places_of(name) | {place for place in known if place is not None}
    if len(where := given.clusters.get(name, ())) > 1:
        read = {place for place in read if cluster_and_topic(place.topic)[0] == where[-1][1]}
    if not known - {None} or not read <= set(given.ends):
        return None
    commits = {place: committed(given, name, place) for place in read}
    return {
        place: run.begins.get((index, place), 0) if offset is None else offset
        for place, offset in commits.items()
    }


def committed(given: Inputs, group: str, place: TopicPartition) -> int | None:
    """A group's last commit in a partition, None for none; the highest of several at the same time."""
    commits = given.commits.get((group, place), ())
    return max(commits)[1] if commits else None
