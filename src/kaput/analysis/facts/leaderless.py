"""When a partition certainly had no leader that was running: its leader's process had been killed, and no
other broker had been elected yet, nor that one started again. From the small tables, on the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kaput.analysis.facts.timeline import FaultRow, Timeline
from kaput.core import TopicPartition

_ENDS_THE_PROCESS = ("kill", "power-loss")  # they take effect when it is gone


class Leaderless(NamedTuple):
    """One partition, and from when to when (ns)."""

    place: TopicPartition
    from_ns: int
    to_ns: int


def leaderless(
    faults: Iterable[FaultRow], timeline: Timeline, events: Iterable[Mapping[str, Any]], ended_ns: int
) -> Iterator[Leaderless]:
    """`events`: cluster_events, which tell when a broker was started; `ended_ns`: of the run."""
    started = [(row["broker"], row["at_ns"]) for row in events if row["kind"] == "started"]
    for fault in faults:
        since = fault.effective_ns
        if fault.fault not in _ENDS_THE_PROCESS or not fault.proven or since is None:
            continue
        for place, changes in timeline.changes.items():
            leader = timeline.leader_before(place, since)
            if leader not in fault.brokers:
                continue
            led = [c.at_ns - c.within_ns for c in changes if c.kind == "leader" and (c.leader or 0) >= 0]
            back = [at_ns for broker, at_ns in started if broker == leader]
            healed = [fault.healed_ns] if fault.healed_ns is not None else []
            until = min((at_ns for at_ns in [*led, *back, *healed] if at_ns >= since), default=ended_ns)
            yield Leaderless(place, since, until)
