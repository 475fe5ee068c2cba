"""The findings of one consumer group: its fates, members, lag, and the rebalances of all groups.

No counting of records here: what members were handed was counted by the tasks.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from kaput.analysis import lag, measured, rebalances
from kaput.analysis.account import Account
from kaput.analysis.assignments import place_of
from kaput.analysis.inputs import Inputs
from kaput.analysis.tally import Tally
from kaput.analysis.waiting import committed
from kaput.evidence.findings import Delivered, GroupFate, GroupFindings, Stored
from kaput.evidence.findings_parts import (
    Handover,
    Lag,
    MemberFindings,
    RebalanceFindings,
)
from kaput.scenario.vocabulary import GROUP_ANOMALIES, OUTCOMES

STORED: tuple[Stored, ...] = ("0", "1", "n", "unread", "uncommitted")
_DELIVERED: tuple[Delivered, ...] = ("0", "1", "n")
_COMING_AND_GOING = ("joined", "left", "killed")


def group_of(given: Inputs, account: Account, index: int) -> GroupFindings:
    """Everything of one group. `index`: its number."""
    fates, name = account.tally.group_fates, given.groups[index]
    return GroupFindings(
        group=name,
        type=given.types[index],
        drained=given.drained[index],
        isolation=given.isolations[index],
        delivered_messages=sum(n for (g, _, _, d), n in fates.items() if g == index and d != "0"),
        fates=_fates(account.tally, index),
        redelivered_after_commit=account.cases["redelivered", index, True],
        delivered_per_s=_per_s(account, index),
        longest_commit_gap_ms=_commit_gap_ms(given, name),
        end_to_end_ms=measured.percentiles(account, index),
        lag=_lag(given, account, index),
        members=measured.share_members(account, index, given.names) or _members(given, account, index),
    )


def _per_s(account: Account, index: int) -> float | None:
    """Records a second, from the first attempt to the last delivery; None where there is no such time."""
    mine = [row for (group, _), row in account.delivered.items() if group == index]
    first_ns, last_ns = account.tally.first_attempt_ns, max((row.last_ns for row in mine), default=None)
    if first_ns is None or last_ns is None or last_ns <= first_ns:
        return None
    return sum(row.records for row in mine) / ((last_ns - first_ns) / 1e9)


def _commit_gap_ms(given: Inputs, group: str) -> float | None:
    """The longest time between two commits; None where there are not two."""
    times = sorted(e["at_ns"] for e in given.group_events if (e["group"], e["kind"]) == (group, "committed"))
    gaps = [later - one for one, later in pairwise(times)]
    return max(gaps) / 1e6 if gaps else None


def _fates(tally: Tally, group: int) -> list[GroupFate]:
    """The fates that any message met."""
    return [
        GroupFate(outcome=o, stored=s, delivered=d, count=tally.group_fates[group, o, s, d])
        for o in OUTCOMES
        for s in STORED
        for d in _DELIVERED
        if tally.group_fates[group, o, s, d]
    ]


def _members(given: Inputs, account: Account, index: int) -> list[MemberFindings]:
    """Every member that any row names, idle ones too."""
    names = given.names
    known = {e["member"] for e in given.group_events if e["group"] == given.groups[index]}
    records = {names.members[m]: row.records for (g, m), row in account.delivered.items() if g == index}
    refused = Counter(
        e["member"] for e in given.group_events if (e["group"], e["kind"]) == (given.groups[index], "refused")
    )
    return [
        MemberFindings(
            member=m,
            delivered=records.get(m, 0),
            commits_refused=refused[m],
            redelivered_after_commit=account.receivers.get((index, names.members.index(m), True), 0),
            anomalies=_anomalies(account, index, names.members.index(m)),
        )
        for m in sorted(known | set(records))
    ]


def _lag(given: Inputs, account: Account, index: int) -> Lag:
    return Lag(max=lag.greatest(given.samples, given.groups[index]), final=_final_lag(given, account, index))


def _anomalies(account: Account, group: int, member: int) -> dict[str, int]:
    found = {name: account.by_member.get((name, group, member), 0) for name in GROUP_ANOMALIES}
    found["redelivered"] = sum(account.receivers.get((group, member, after), 0) for after in (False, True))
    return {name: n for name, n in found.items() if n}


def _final_lag(given: Inputs, account: Account, index: int) -> int | None:
    """None where no row says what the group had committed, were it nothing, or where an end is not known."""
    group = given.groups[index]
    told = {
        place_of(event)
        for event in given.group_events
        if (event["group"], event["kind"]) == (group, "committed") and event["offset"] is not None
    } - {None}
    read = given.places_of(group) | {place for place in told if place is not None}
    if not told or not read <= set(given.ends):
        return None
    stands = {place: committed(given, group, place) for place in read}
    return sum(
        max(0, given.ends[place][0] - (account.begins.get((index, place), 0) if offset is None else offset))
        for place, offset in stands.items()
    )


def rebalances_of(given: Inputs, account: Account) -> list[RebalanceFindings]:
    """The rebalances of all groups, without the groups' ends."""
    found = account.rebalances.found
    events = [e for e in given.group_events if e["kind"] in _COMING_AND_GOING]
    rebalances.explain(found, events, given.faults, given.cluster_events)
    return [
        RebalanceFindings(
            group=one.group,
            trigger=one.trigger,
            started_ns=one.started_ns,
            ended_ns=one.ended_ns,
            members=one.members,
            unowned_partition_seconds=one.unowned_ns / 1e9,
            redelivered=account.redelivered.get(number, 0),
            handovers=_handovers(one, number, given, account),
        )
        for number, one in enumerate(found)
        if not one.closes
    ]


def _handovers(one: rebalances.Rebalance, number: int, given: Inputs, account: Account) -> list[Handover]:
    members = given.names.members
    return [
        Handover(
            member=member,
            revoked_ns=one.revoked.get(member),
            assigned_ns=one.assigned.get(member),
            first_record_ns=account.first_records.get((members.index(member), number)),
        )
        for member in sorted({*one.revoked, *one.assigned})
    ]
