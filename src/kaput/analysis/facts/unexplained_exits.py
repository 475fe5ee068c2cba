"""Finds brokers that stopped without a fault to explain it, from the small tables. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kaput.analysis.facts.leader_history import FaultRow
from kaput.core import MS
from kaput.scenario.vocabulary import NOOP


def deaths(
    events: Iterable[Mapping[str, Any]], faults: Sequence[FaultRow], ended_ns: int
) -> list[tuple[int, int]]:
    """(broker, at_ns) by time, up to the end of the run. `events`: the cluster_events table."""
    found = [
        (row["broker"], row["at_ns"])
        for row in events
        if row["kind"] == "stopped"
        and row["broker"] is not None
        and row["at_ns"] <= ended_ns
        and not _in_a_fault(row["broker"], row["at_ns"], faults)
    ]
    return sorted(found, key=lambda death: death[::-1])


def _in_a_fault(broker: int, at_ns: int, faults: Sequence[FaultRow]) -> bool:
    """Whether a proven fault on the broker was active. noop does not count: it stops no broker."""
    return any(
        fault.proven
        and fault.fault != NOOP
        and broker in fault.brokers
        and fault.injected_ns // MS <= at_ns // MS
        and (fault.healed_ns is None or at_ns // MS <= fault.healed_ns // MS)
        for fault in faults
    )
