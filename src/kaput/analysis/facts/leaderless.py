"""Finds when a partition certainly had no running leader: its leader's process was killed, and neither had
another broker been elected yet, nor this one restarted. From the small tables, on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kaput.analysis.facts.leader_history import FaultRow, LeaderHistory
from kaput.core import TopicPartition

_KILLING_FAULTS = ("kill", "power-loss")  # they take effect when the process is gone


class Leaderless(NamedTuple):
    """A time (ns) without a running leader of one partition."""

    place: TopicPartition
    from_ns: int
    to_ns: int


def leaderless(
    faults: Iterable[FaultRow], history: LeaderHistory, events: Iterable[Mapping[str, Any]], ended_ns: int
) -> Iterator[Leaderless]:
    """Finds these times. `events`: cluster_events, for the starts of brokers; `ended_ns`: end of the run."""
    started = [(row["broker"], row["at_ns"]) for row in events if row["kind"] == "started"]
    for fault in faults:
        since = fault.effective_ns
        if fault.fault not in _KILLING_FAULTS or not fault.proven or since is None:
            continue
        for place, changes in history.changes.items():
            leader = history.leader_before(place, since)
            if leader not in fault.brokers:
                continue
            led = [c.at_ns - c.within_ns for c in changes if c.kind == "leader" and (c.leader or 0) >= 0]
            back = [at_ns for broker, at_ns in started if broker == leader]
            healed = [fault.healed_ns] if fault.healed_ns is not None else []
            until = min((at_ns for at_ns in [*led, *back, *healed] if at_ns >= since), default=ended_ns)
            yield Leaderless(place, since, until)
