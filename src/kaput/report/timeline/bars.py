"""What the timeline shows, in seconds: bars (faults, rebalances, leaders, ISRs, owners of partitions, the
phases of a recovery) and marks (elections, ISR changes, brokers and members that come or go, rebalances).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from kaput.core import FOREVER_NS, cluster_and_topic, plural
from kaput.evidence.findings import FaultFindings, Findings
from kaput.evidence.folder import Manifest
from kaput.report.document import milliseconds

NO_LEADER = "no leader"


class Bar(NamedTuple):
    """From `begin` to `end` (s). `row`: of the chart; `kind`: decides the color; `short`: its text."""

    row: str
    begin: float
    end: float
    kind: str
    text: str
    short: str = ""


class TimelineClock(NamedTuple):
    """Converts times in ns to seconds of the timeline, which ends at `end_s`."""

    began_ns: int
    end_s: float

    def s(self, ns: int) -> float:
        """Seconds since the load began, clamped to the timeline."""
        return round(min(max((ns - self.began_ns) / 1e9, 0.0), self.end_s), 3)

    def within(self, ns: int) -> bool:
        return 0 <= (ns - self.began_ns) / 1e9 <= self.end_s


def faults(findings: Findings, clock: TimelineClock) -> Iterator[Bar]:
    """A bar for each fault, from effective to healed; then one for each loss window."""
    for fault in findings.faults:
        if fault.effective_ns is not None:
            brokers = f" broker {', '.join(map(str, fault.brokers))}" if fault.brokers else f" {fault.target}"
            end = clock.end_s if fault.healed_ns is None else clock.s(fault.healed_ns)
            yield Bar(
                fault.id, clock.s(fault.effective_ns), end, "fault", f"{fault.fault}{brokers}", fault.fault
            )
    for fault in findings.faults:
        first, last = fault.first_lost_ack_ns, fault.last_lost_ack_ns
        if first is not None and last is not None:
            text = f"{fault.lost:,} messages acknowledged that are lost"
            yield Bar("loss window", clock.s(first), clock.s(last), "loss", text, f"{fault.lost:,} lost")


def rebalances(findings: Findings, clock: TimelineClock) -> Iterator[Bar]:
    """The rebalances that began within the timeline, a row for each group."""
    alone = len({one.group for one in findings.rebalances}) == 1
    for one in findings.rebalances:
        end = clock.end_s if one.took_ns is None else clock.s(one.started_ns + one.took_ns)
        if clock.within(one.started_ns):
            row = "rebalances" if alone else f"rebalances of {one.group}"
            yield Bar(
                row, clock.s(one.started_ns), end, "rebalance", f"rebalance: {one.trigger}", "rebalance"
            )


def moves(findings: Findings, clock: TimelineClock) -> Iterator[Bar]:
    """Steps of the plan; how long clients waited (RTO); and for each mirror the time from the first
    unmirrored message to the mirror's end (RPO).
    """
    plan = findings.plan
    for step in plan.steps if plan else ():
        end = clock.end_s if step.seconds is None else clock.s(step.started_ns + round(step.seconds * 1e9))
        text = f"{step.step}: {step.outcome}, {step.proof}"
        yield Bar(step.step, clock.s(step.started_ns), end, "step", text, step.kind)
    waits = [("writes", plan.rto_writes)] if plan else []
    waits += [(f"reads of {one.group}", one.rto) for one in (plan.groups if plan else ())]
    for what, wait in waits:
        if wait is not None:
            text = f"{what} waited {wait.seconds:,.1f} s"
            yield Bar(f"RTO, {what}", clock.s(wait.from_ns), clock.s(wait.to_ns), "RTO", text, "RTO")
    for one in findings.mirrors:
        if one.unmirrored_since_ns is not None and one.rpo_messages is not None:
            end = clock.end_s if one.ended_ns is None else clock.s(one.ended_ns)
            text = f"{one.rpo_messages:,} messages acknowledged that {one.target} lacks"
            begin = clock.s(one.unmirrored_since_ns)
            yield Bar(f"RPO, {one.mirror}", begin, max(begin, end), "RPO", text, f"{one.rpo_messages:,}")


def drain(manifest: Manifest | None, clock: TimelineClock) -> Iterator[Bar]:
    """The drain at the end of the run, if there was one."""
    took = manifest.phases.get("drain") if manifest else None
    if manifest and manifest.ended_ns and took and math.isfinite(took):
        end = clock.s(manifest.ended_ns)
        yield Bar("drain", max(0.0, round(end - took, 3)), end, "drain", "all partitions are read to the end")


def _changes(events: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """leader and isr events by partition, in order of time."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in events:
        if row["kind"] in ("leader", "isr") and row["topic"] is not None:
            found.setdefault(f"{row['topic']}/{row['partition']}", []).append(row)
    return dict(sorted(found.items(), key=lambda pair: _by_number(pair[0])))


def _until_the_next(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], int | None]]:
    """Each row with the time (ns) of the next one, None for the last."""
    return zip_longest(rows, (later["at_ns"] for later in rows[1:]))


def _by_number(place: str) -> tuple[str, int]:
    topic, _, partition = place.rpartition("/")
    return topic, int(partition)


def leaders(events: Iterable[Mapping[str, Any]], findings: Findings, clock: TimelineClock) -> Iterator[Bar]:
    """The leader of each partition, a row for each; below it, a deposed leader that went on acknowledging."""
    # Here, because it loads pyarrow, which the text of a report does without.
    from kaput.evidence.parquet import absences

    every = list(events)
    absent = absences(every)
    for place, rows in _changes(every).items():
        led = [row for row in rows if row["kind"] == "leader"]
        for row, end_ns in _until_the_next(led):
            leader, at_ns = row["leader"], row["at_ns"]
            until_ns = FOREVER_NS if end_ns is None else end_ns
            kind = NO_LEADER if leader is None or leader < 0 else f"broker {leader}"
            text, short = f"{kind}, epoch {row['leader_epoch']}", kind.rpartition(" ")[2]
            # A broker that is gone leads nothing, even if no other has been elected yet.
            for absence in absent.get((row.get("cluster"), leader), ()):
                down_ns, back_ns = max(absence.stopped_ns, at_ns), min(absence.back_ns, until_ns)
                if down_ns < back_ns:
                    yield from _bar(place, at_ns, down_ns, kind, text, clock, short)
                    without = f"no leader: {kind} is down"
                    yield from _bar(place, down_ns, back_ns, NO_LEADER, without, clock)
                    at_ns = back_ns
            yield from _bar(place, at_ns, until_ns, kind, text, clock, short)
        yield from _deposed(place, findings, clock)


def _deposed(place: str, findings: Findings, clock: TimelineClock) -> Iterator[Bar]:
    for change in findings.leader_changes:
        mine = f"{change.topic}/{change.partition}" == place and change.old_leader is not None
        if mine and change.two_leaders_ms:
            kind = f"broker {change.old_leader}"
            text = f"{kind}, deposed, acknowledged {change.deposed_acks_after_election:,} more"
            last_ns = change.last_deposed_ack_ns
            row = f"{place} deposed"
            yield from _bar(row, change.elected_ns, last_ns, kind, text, clock, short=str(change.old_leader))


def isrs(events: Iterable[Mapping[str, Any]], clock: TimelineClock) -> Iterator[Bar]:
    """The in-sync replicas of each partition, a row for each; the kind is the size of the ISR."""
    for place, rows in _changes(events).items():
        known = [row for row in rows if row["isr"] is not None]
        for row, end in _until_the_next(known):
            members = ", ".join(map(str, sorted(row["isr"])))
            yield from _bar(place, row["at_ns"], end, str(len(row["isr"])), members or "none", clock)


def _bar(
    row: str, begin_ns: int, end_ns: int | None, kind: str, text: str, clock: TimelineClock, short: str = ""
) -> Iterator[Bar]:
    end = clock.end_s if end_ns is None else clock.s(end_ns)
    begin = clock.s(begin_ns)
    if begin < end:
        yield Bar(row, begin, end, kind, text, short)


def owners(events: Sequence[Mapping[str, Any]], clock: TimelineClock) -> Iterator[Bar]:
    """The member that owned each partition. Assigning a partition to its current owner changes nothing."""
    alone = len({row["group"] for row in events if row["group"] is not None}) == 1
    held: dict[tuple[str, str], tuple[str, int]] = {}
    found: list[Bar] = []

    def end_ownership(key: tuple[str, str], end_ns: int | None) -> None:
        owner, since_ns = held.pop(key)
        found.extend(_bar(key[1] if alone else ": ".join(key), since_ns, end_ns, owner, owner, clock))

    for row in events:
        key = (row["group"], f"{row['topic']}/{row['partition']}")
        member, kind, at_ns = row["member"], row["kind"], row["at_ns"]
        if kind == "assigned" and row["partition"] is not None:
            cluster = cluster_and_topic(row["topic"])[0]
            for other in [k for k in held if k[0] == row["group"]]:
                # A group that is assigned anything in another cluster has left what it had.
                if cluster_and_topic(other[1])[0] != cluster or (other == key and held[key][0] != member):
                    end_ownership(other, at_ns)
            held.setdefault(key, (member, at_ns))
        elif kind in ("revoked", "lost", "left", "killed"):
            whole = kind in ("left", "killed") or row["partition"] is None
            for other in [k for k, (owner, _) in held.items() if k[0] == row["group"] and owner == member]:
                if whole or other == key:
                    end_ownership(other, at_ns)
    for key in list(held):
        end_ownership(key, None)
    return iter(sorted(found, key=lambda bar: (_by_number(bar.row), bar.begin)))


_VERBS = {"joined": "joined", "left": "left", "killed": "was killed"}


class Mark(NamedTuple):
    """An event at one moment, in seconds."""

    at: float
    kind: str
    text: str


def rebalance_marks(findings: Findings, clock: TimelineClock) -> Iterator[Mark]:
    for one in findings.rebalances:
        if clock.within(one.started_ns):
            never = "some partition never got an owner again"
            lasted = never if one.took_ns is None else f"took {milliseconds(one.took_ns / 1e6)}"
            text = f"{one.group}: {one.trigger}; {lasted}, {plural(one.members, 'member')}"
            yield Mark(clock.s(one.started_ns), "rebalance", text)


def event_marks(found: Iterable[Mapping[str, Any]], clock: TimelineClock) -> Iterator[Mark]:
    """Elections (a change of leader), ISR changes, brokers and members joining or leaving."""
    led: dict[tuple[str, int], int] = {}
    isrs: dict[tuple[str, int], Any] = {}
    for row in found:
        place, kind = (row["topic"], row["partition"]), row["kind"]
        before, text = isrs.get(place), None
        if row["isr"] is not None:
            isrs[place] = row["isr"]
        if kind == "leader":
            leader = row["leader"]
            if place in led and led[place] != leader:
                leads = "no leader of" if leader is None or leader < 0 else f"broker {leader} leads"
                in_sync = f", ISR {', '.join(map(str, row['isr']))}" if row["isr"] else ""
                text = f"{leads} {place[0]}/{place[1]} (epoch {row['leader_epoch']}{in_sync})"
            led[place] = leader
        elif kind == "isr" and row["isr"] not in (None, before):  # else its eligible leader replicas changed
            text = f"ISR of {place[0]}/{place[1]}: {', '.join(map(str, row['isr'])) or 'empty'}"
        elif kind in ("fenced", "unfenced", "started", "stopped"):
            text = f"broker {row['broker']} {kind}"
        elif kind in ("joined", "left", "killed"):
            text = f"{row['member']} of {row['group']} {_VERBS[kind]}"
        if text is not None and clock.within(row["at_ns"]):
            name = {"leader": "election", "isr": "ISR change"}.get(kind, kind)
            yield Mark(clock.s(row["at_ns"]), name, text)


def recovery_bars(fault: FaultFindings) -> Iterator[Bar]:
    """The phases of the recovery from a fault, in s since its effect; only the known ones."""
    elected, first, isr = fault.election_ms, fault.first_ack_after_ms, fault.isr_restored_ms
    read, drained = fault.first_delivery_after_ms, fault.backlog_drained_ms
    healed = None
    if fault.healed_ns is not None and fault.effective_ns is not None:
        healed = (fault.healed_ns - fault.effective_ns) / 1e9
        if healed:  # a change that stays has no duration
            yield Bar("the fault", 0.0, healed, "fault", f"{healed:,.1f} s until the heal")
    if elected is not None:
        yield Bar("election", 0.0, elected / 1e3, "cluster", f"{elected:,.0f} ms")
    waits = (  # for which phase, after which one, until when
        ("new leader's first ack", elected, first, "the election"),
        ("its first delivery", first, read, "the first acknowledgement"),
        ("backlog drained", read, drained, None),
    )
    for phase, before, at, what in waits:
        if at is not None:
            begin = min(before or 0.0, at) / 1e3
            text = f"{at / 1e3:,.1f} s after the fault"
            if what is not None:
                text = f"{at - begin * 1e3:,.0f} ms after {what}"
            yield Bar(phase, begin, at / 1e3, "client", text)
    if isr is not None and healed is not None:
        yield Bar("full ISR", healed, healed + isr / 1e3, "cluster", f"{isr:,.0f} ms after the heal")
