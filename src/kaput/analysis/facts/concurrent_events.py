"""Describes the events of the cluster and of groups within a time, and the likeliest cause of a standstill.

Not here: finding standstills (questions/standstills.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from kaput.analysis.facts.leader_history import Change, FaultRow
from kaput.analysis.facts.outage_ends import SOON_NS, healing
from kaput.core import FOREVER_NS, MS, SECOND, TopicPartition
from kaput.evidence.findings_service import NotableEvent

if TYPE_CHECKING:
    from kaput.analysis.run import Run

_BROKER_KINDS = ("fenced", "unfenced", "started", "stopped")
_MAX_SHOWN = 20  # events of one standstill
_MAX_NAMED = 3  # partitions of one change
_JUST_HEALED_NS = 10 * SECOND  # after a heal
_WARM_UP_NS = 2 * SECOND  # after the first attempt


class _Event(NamedTuple):
    """An event; `place` or `group` if it concerns only that partition or group."""

    at_ns: int
    kind: str
    what: str
    place: TopicPartition | None = None
    group: str | None = None

    def concerns(self, place: TopicPartition | None, group: str | None) -> bool:
        """Whether it may concern the partition and the group. None stands for any."""
        return (None in (place, self.place) or self.place == place) and (
            None in (group, self.group) or self.group == group
        )


class RunEvents:
    """The events of one run."""

    def __init__(self, run: Run) -> None:
        self._run, self._faults = run, run.given.faults

    def happened(
        self, from_ns: int, to_ns: int, place: TopicPartition | None, group: str | None
    ) -> tuple[list[NotableEvent], int]:
        """The first events within a time, and how many more there were. Without `place`, of all partitions;
        without `group`, rebalances of all groups.
        """
        # Cluster events have a resolution of 1 ms.
        first = bisect_left(self._events, from_ns // MS * MS, key=lambda one: one.at_ns)
        last = bisect_right(self._events, to_ns, key=lambda one: one.at_ns)
        mine = (one for one in self._events[first:last] if one.concerns(place, group))
        found = [
            (at_ns, kind, _places_prefix(str(one.place) for one in same if one.place) + what)
            for (at_ns, kind, what), same in groupby(mine, key=lambda one: one[:3])
        ]
        shown = [NotableEvent(at_ns=at, kind=kind, what=what) for at, kind, what in found[:_MAX_SHOWN]]
        return shown, max(0, len(found) - _MAX_SHOWN)

    def cause(self, from_ns: int, to_ns: int, place: TopicPartition | None, group: str | None) -> str | None:
        """A sentence on the likeliest cause; None if the evidence has none."""
        faults = [one for one in healing(self._faults, group) if one.effective_ns is not None]
        in_effect = [one for one in faults if _in_effect(one, from_ns, to_ns)]
        just_healed = [
            one for one in faults if one.healed_ns and 0 <= from_ns - one.healed_ns <= _JUST_HEALED_NS
        ]
        rebalanced = [
            r
            for r in self._run.rebalances.found
            if r.group == group and r.started_ns <= to_ns and (r.ended_ns or FOREVER_NS) >= from_ns
        ]
        if in_effect:
            return "; ".join(self._in_effect(one, place, from_ns, to_ns) for one in in_effect[:_MAX_NAMED])
        if rebalanced:
            return f"group {group} rebalanced: {rebalanced[0].trigger}"
        if just_healed:
            return f"{_fault_text(just_healed[-1])} had just been healed"
        if group is None and from_ns - self._load_begin_ns() <= _WARM_UP_NS:
            return "the load had only begun: brokers and clients were still cold"
        return None

    def _in_effect(self, fault: FaultRow, place: TopicPartition | None, from_ns: int, to_ns: int) -> str:
        text = f"{_fault_text(fault)} was in effect"
        if place is None or fault.effective_ns is None or place not in self._run.leader_history.changes:
            return text
        # A partition with another leader or a smaller ISR by then no longer waits for the broker.
        at_ns = max(fault.effective_ns, from_ns)
        led = self._run.leader_history.leader_before(place, at_ns)
        if led in fault.brokers:
            return f"{text}; broker {led} led {place}{self._late_clients_text(place, from_ns, to_ns)}"
        in_sync = [broker for broker in self._isr(place, at_ns) if broker in fault.brokers]
        if in_sync and self._run.given.with_acks("all"):
            return f"{text}; broker {in_sync[0]} was in the ISR of {place}, which acks=all waits for"
        return text

    def _late_clients_text(self, place: TopicPartition, from_ns: int, to_ns: int) -> str:
        """Text for a leader that was elected long before its clients found it, else empty."""
        changes = self._run.leader_history.changes[place]
        elected = [c for c in changes if c.has_new_leader and from_ns < c.at_ns < to_ns]
        if not elected or to_ns - elected[-1].at_ns <= SOON_NS:
            return ""
        change = elected[-1]
        after, late = (change.at_ns - from_ns) / SECOND, (to_ns - change.at_ns) / SECOND
        new = f", broker {change.leader} {after:.1f} s later"
        return f"{new}, and clients came to it only {late:.1f} s after that"

    def _isr(self, place: TopicPartition, at_ns: int) -> Sequence[int]:
        """The last recorded ISR before a time; empty if none."""
        changes = self._run.leader_history.changes[place]
        known = [one.isr for one in changes if one.isr is not None and one.at_ns < at_ns]
        return known[-1] if known else ()

    @cached_property
    def _events(self) -> list[_Event]:
        """All events, by time."""
        every = [*self._of_faults(), *self._of_brokers(), *self._of_groups(), *self._of_partitions()]
        return sorted(every, key=lambda one: (*one[:3], str(one.place)))

    def _of_faults(self) -> Iterator[_Event]:
        for one in self._faults:
            if one.effective_ns is not None:
                yield _Event(one.effective_ns, "fault", f"{_fault_text(one)} took effect")
            if one.healed_ns is not None:
                yield _Event(one.healed_ns, "heal", f"{_fault_text(one)} was healed")

    def _of_brokers(self) -> Iterator[_Event]:
        for row in self._run.given.cluster_events:
            if row["kind"] in _BROKER_KINDS and row["broker"] is not None:
                yield _Event(row["at_ns"], row["kind"], f"broker {row['broker']} {row['kind']}")

    def _of_groups(self) -> Iterator[_Event]:
        for one in self._run.rebalances.found:
            until = "" if one.ended_ns is None else f" for {(one.ended_ns - one.started_ns) / 1e9:.1f} s"
            if one.ended_ns is not None and one.resumed_ns is not None:
                until += f" (read again {(one.resumed_ns - one.started_ns) / 1e9:.1f} s after it began)"
            what = f"group {one.group} rebalanced{until}: {one.trigger}"
            yield _Event(one.started_ns, "rebalance", what, group=one.group)
        last = self._run.sums["sent"]["last_attempt_ns"].max()
        if isinstance(last, int):
            yield _Event(last, "load-end", "everything had been sent")

    def _of_partitions(self) -> Iterator[_Event]:
        for place, changes in self._run.leader_history.changes.items():
            for one in changes:
                if _known(one):
                    yield _Event(one.at_ns, *_change_text(one), place=place)

    def _load_begin_ns(self) -> int:
        first = self._run.sums["sent"]["begin_ns"].min()
        return first if isinstance(first, int) else -FOREVER_NS


def _in_effect(fault: FaultRow, from_ns: int, to_ns: int) -> bool:
    until = FOREVER_NS if fault.healed_ns is None else fault.healed_ns
    return fault.effective_ns is not None and fault.effective_ns < to_ns and until > from_ns


def _fault_text(fault: FaultRow) -> str:
    return f"{fault.id} ({fault.target})"


def _known(change: Change) -> bool:
    return (
        change.isr is not None if change.kind == "isr" else change.is_election and change.leader is not None
    )


def _change_text(change: Change) -> tuple[str, str]:
    if change.kind == "isr":
        return "isr", f"ISR {', '.join(map(str, change.isr or ())) or 'empty'}"
    if change.leader == -1:
        return "no-leader", "no leader"
    return "election", f"broker {change.leader} was elected"


def _places_prefix(places: Iterable[str]) -> str:
    """`orders/0, orders/1: `: the prefix for partitions with the same change at the same time."""
    every = list(places)
    more = len(every) - _MAX_NAMED
    listed = ", ".join(every[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"{listed}: " if every else ""
