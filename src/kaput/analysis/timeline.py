"""Who led what, and when: epochs, elections and ISRs of each partition, from the small tables. No Spark.

Built on the driver from cluster_events, faults, end_offsets and a summary of the log (partitions.py);
causes.py and faults.py lay it beside the messages.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kaput.analysis.names import Place

FOREVER_NS = 2**63 - 1
_MS = 1_000_000  # the cluster's own records have times in ms: comparisons with them are made in ms


@dataclass(frozen=True)
class Change:
    """One leader or isr event of a partition. `led_before`: who led last (never -1), None at first."""

    at_ns: int
    kind: str
    leader: int | None
    epoch: int | None
    isr: tuple[int, ...] | None
    led_before: int | None
    unclean: bool = False
    fault: str | None = None

    @property
    def is_election(self) -> bool:
        """Whether a leader came after another one."""
        return self.kind == "leader" and self.led_before is not None


@dataclass(frozen=True)
class Epoch:
    """A leader epoch: from which offset on the log is its own or later; None where no event tells when."""

    number: int
    start: int
    at_ns: int | None = None
    unclean: bool = False
    fault: str | None = None


@dataclass(frozen=True)
class Fault:
    """One row of the faults table."""

    id: str
    fault: str
    target: str
    brokers: tuple[int, ...]
    injected_ns: int
    effective_ns: int | None
    healed_ns: int | None
    bit: bool
    proof: str


@dataclass(frozen=True)
class Timeline:
    """Every partition's changes in the order of time, and its epochs in their own order."""

    changes: Mapping[Place, Sequence[Change]] = field(default_factory=dict)
    epochs: Mapping[Place, Sequence[Epoch]] = field(default_factory=dict)

    def leader_before(self, place: Place, at_ns: int) -> int | None:
        """Who led the partition just before a moment; None where that is not known, -1 for nobody."""
        led = [c.leader for c in self.changes[place] if c.kind == "leader" and c.at_ns // _MS < at_ns // _MS]
        return led[-1] if led else None

    def elections_of(self, fault: str) -> list[tuple[Place, Change]]:
        """The elections that belong to a fault, the earliest of each partition first."""
        return [
            (place, change)
            for place, changes in self.changes.items()
            for change in changes
            if change.fault == fault
        ]

    def leader_changes(self) -> int:
        """How often a partition came to be led by another broker than before."""
        return sum(
            c.kind == "leader" and c.led_before is not None and c.leader not in (None, -1, c.led_before)
            for changes in self.changes.values()
            for c in changes
        )


def read_faults(rows: Iterable[Mapping[str, Any]]) -> list[Fault]:
    """The faults in the order of their injection."""
    names = Fault.__dataclass_fields__
    faults = [
        Fault(**{**{name: row[name] for name in names}, "brokers": tuple(row["brokers"] or ())})
        for row in rows
    ]
    return sorted(faults, key=lambda fault: (fault.injected_ns, fault.id))


def build(
    events: Iterable[Mapping[str, Any]],
    faults: Sequence[Fault],
    first_offsets: Mapping[Place, Mapping[int, int]],
    ends: Mapping[Place, int],
) -> Timeline:
    """`first_offsets`: the lowest stored offset of each epoch; `ends`: the offset after each log's last."""
    by_place: dict[Place, list[Mapping[str, Any]]] = defaultdict(list)
    for row in events:
        if row["kind"] in ("leader", "isr") and row["topic"] is not None and row["partition"] is not None:
            by_place[row["topic"], row["partition"]].append(row)
    changes = {place: _changes(rows, faults) for place, rows in sorted(by_place.items())}
    epochs = {
        place: _epochs(changes.get(place, []), first_offsets.get(place, {}), ends.get(place, 0))
        for place in sorted({*changes, *first_offsets})
    }
    return Timeline(changes, {place: known for place, known in epochs.items() if known})


def _changes(rows: Iterable[Mapping[str, Any]], faults: Sequence[Fault]) -> list[Change]:
    changes: list[Change] = []
    led_before: int | None = None
    eligible: set[int] | None = None
    for row in sorted(rows, key=lambda row: row["at_ns"]):
        isr = None if row["isr"] is None else tuple(row["isr"])
        leader = row["leader"]
        change = Change(row["at_ns"], row["kind"], leader, row["leader_epoch"], isr, led_before)
        if change.kind == "leader":
            if leader is not None and leader >= 0:
                change = replace(change, unclean=eligible is not None and leader not in eligible)
            change = replace(change, fault=_fault_of(change, faults))
            led_before = leader if leader is not None and leader >= 0 else led_before
        if isr is not None:
            # Who may lead next without a loss: the ISR, and the eligible leader replicas beside it.
            eligible = {*isr, *(row["elr"] or ())}
        changes.append(change)
    return changes


def _fault_of(change: Change, faults: Sequence[Fault]) -> str | None:
    """The latest fault in effect that hit the leader before."""
    hit = [
        fault
        for fault in faults
        if fault.effective_ns is not None
        and fault.effective_ns // _MS <= change.at_ns // _MS
        and change.led_before in fault.brokers
    ]
    return max(hit, key=lambda fault: fault.effective_ns or 0).id if hit else None


def _epochs(changes: Sequence[Change], first_offsets: Mapping[int, int], end: int) -> list[Epoch]:
    began: dict[int, Change] = {}
    for change in changes:
        if change.kind == "leader" and change.epoch is not None:
            began.setdefault(change.epoch, change)
    known: list[Epoch] = []
    start = end
    for number in sorted({*began, *first_offsets}, reverse=True):
        start = min(start, first_offsets.get(number, start))
        change_ = began.get(number)
        if change_ is None:
            known.append(Epoch(number, start))
        else:
            known.append(Epoch(number, start, change_.at_ns, change_.unclean, change_.fault))
    return known[::-1]
