"""Marks of the timeline, in seconds: elections, ISR changes, brokers and members joining or leaving,
rebalances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kaput.core import plural
from kaput.evidence.findings import Findings
from kaput.report.formats import milliseconds
from kaput.report.timeline.bars import TimelineClock

_VERBS = {"joined": "joined", "left": "left", "killed": "was killed"}


class Mark(NamedTuple):
    """An event at one moment, in seconds."""

    at: float
    kind: str
    text: str


def rebalances(findings: Findings, clock: TimelineClock) -> Iterator[Mark]:
    """A mark where each rebalance began."""
    for one in findings.rebalances:
        if clock.within(one.started_ns):
            never = "some partition never got an owner again"
            lasted = never if one.took_ns is None else f"took {milliseconds(one.took_ns / 1e6)}"
            text = f"{one.group}: {one.trigger}; {lasted}, {plural(one.members, 'member')}"
            yield Mark(clock.s(one.started_ns), "rebalance", text)


def events(found: Iterable[Mapping[str, Any]], clock: TimelineClock) -> Iterator[Mark]:
    """Elections (a change of leader), ISR changes, brokers and members joining or leaving."""
    led: dict[tuple[str, int], int] = {}
    for row in found:
        place, kind = (row["topic"], row["partition"]), row["kind"]
        text = None
        if kind == "leader":
            leader = row["leader"]
            if place in led and led[place] != leader:
                leads = "no leader of" if leader is None or leader < 0 else f"broker {leader} leads"
                text = f"{leads} {place[0]}/{place[1]} (epoch {row['leader_epoch']})"
            led[place] = leader
        elif kind == "isr":
            text = f"ISR of {place[0]}/{place[1]}: {', '.join(map(str, row['isr'] or []))}"
        elif kind in ("fenced", "unfenced", "started", "stopped"):
            text = f"broker {row['broker']} {kind}"
        elif kind in ("joined", "left", "killed"):
            text = f"{row['member']} of {row['group']} {_VERBS[kind]}"
        if text is not None and clock.within(row["at_ns"]):
            name = {"leader": "election", "isr": "ISR change"}.get(kind, kind)
            yield Mark(clock.s(row["at_ns"]), name, text)
