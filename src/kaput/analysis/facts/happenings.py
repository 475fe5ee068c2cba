"""What happened to the cluster and to groups within a time, in words; and what was the likeliest cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kaput.analysis.facts.endings import healing
from kaput.analysis.facts.timeline import Change, Fault
from kaput.core import FOREVER_NS, MS, SECOND, TopicPartition
from kaput.evidence.findings_service import Happening

if TYPE_CHECKING:
    from kaput.analysis.run import Run

_OF_BROKERS = ("fenced", "unfenced", "started", "stopped")
_NAMED = 3  # partitions of one change
_LATELY_NS = 10 * SECOND  # since a heal
_COLD_NS = 2 * SECOND  # since the first attempt


class Meanwhile:
    """Of one run."""

    SHOWN = 20

    def __init__(self, run: Run) -> None:
        self._run, self._faults = run, run.given.faults

    def happened(
        self, from_ns: int, to_ns: int, place: TopicPartition | None, group: str | None
    ) -> list[Happening]:
        """In the order of time; of all partitions where none is named. Rebalances of all groups."""
        every = [*self._of_faults(), *self._of_brokers(), *self._of_groups(group), *self._load_end(group)]
        every += self._of_partitions(place)
        # The cluster's events come in whole ms.
        inside = [one for one in every if from_ns // MS * MS <= one.at_ns <= to_ns]
        return sorted(inside, key=lambda one: (one.at_ns, one.kind, one.what))

    def cause(self, from_ns: int, to_ns: int, place: TopicPartition | None, group: str | None) -> str | None:
        """The likeliest cause; None where the evidence has none."""
        faults = [one for one in healing(self._faults, group) if one.effective_ns is not None]
        in_effect = [one for one in faults if _in_effect(one, from_ns, to_ns)]
        just_healed = [one for one in faults if one.healed_ns and 0 <= from_ns - one.healed_ns <= _LATELY_NS]
        rebalanced = [
            r
            for r in self._run.rebalances.found
            if r.group == group and r.started_ns <= to_ns and (r.ended_ns or FOREVER_NS) >= from_ns
        ]
        if in_effect:
            return "; ".join(self._in_effect(one, place) for one in in_effect[:_NAMED])
        if rebalanced:
            return f"group {group} rebalanced: {rebalanced[0].trigger}"
        if just_healed:
            return f"{_named(just_healed[-1])} had just been healed"
        if group is None and from_ns - self._load_from() <= _COLD_NS:
            return "the load had only begun: brokers and clients were still cold"
        return None

    def _in_effect(self, fault: Fault, place: TopicPartition | None) -> str:
        said = f"{_named(fault)} was in effect"
        if place is None or fault.effective_ns is None or place not in self._run.timeline.changes:
            return said
        led = self._run.timeline.leader_before(place, fault.effective_ns)
        if led in fault.brokers:
            return f"{said}; broker {led} led {place}"
        in_sync = [broker for broker in self._isr(place, fault.effective_ns) if broker in fault.brokers]
        if in_sync and self._run.given.with_acks("all"):
            return f"{said}; broker {in_sync[0]} was in the ISR of {place}, which acks=all waits for"
        return said

    def _isr(self, place: TopicPartition, at_ns: int) -> Sequence[int]:
        """The in-sync replicas before a moment, as far as they are recorded."""
        changes = self._run.timeline.changes[place]
        known = [one.isr for one in changes if one.isr is not None and one.at_ns < at_ns]
        return known[-1] if known else ()

    def _of_faults(self) -> Iterator[Happening]:
        for one in self._faults:
            if one.effective_ns is not None:
                yield Happening(at_ns=one.effective_ns, kind="fault", what=f"{_named(one)} took effect")
            if one.healed_ns is not None:
                yield Happening(at_ns=one.healed_ns, kind="heal", what=f"{_named(one)} was healed")

    def _of_brokers(self) -> Iterator[Happening]:
        for row in self._run.given.cluster_events:
            if row["kind"] in _OF_BROKERS and row["broker"] is not None:
                yield Happening(
                    at_ns=row["at_ns"], kind=row["kind"], what=f"broker {row['broker']} {row['kind']}"
                )

    def _of_groups(self, group: str | None) -> Iterator[Happening]:
        for one in self._run.rebalances.found:
            if group in (None, one.group):
                until = "" if one.ended_ns is None else f" for {(one.ended_ns - one.started_ns) / 1e9:.1f} s"
                what = f"group {one.group} rebalanced{until}: {one.trigger}"
                yield Happening(at_ns=one.started_ns, kind="rebalance", what=what)

    def _load_end(self, group: str | None) -> Iterator[Happening]:
        last = self._run.sums["sent"]["last_attempt_ns"].max()
        if group is not None and isinstance(last, int):
            yield Happening(at_ns=last, kind="load-end", what="everything had been sent")

    def _of_partitions(self, place: TopicPartition | None) -> Iterator[Happening]:
        """Partitions with the same change at the same moment share one."""
        every = self._run.timeline.changes
        changes = every if place is None else {place: every.get(place, ())}
        found = [
            (one.at_ns, *_changed(one), str(where))
            for where, of in changes.items()
            for one in of
            if _known(one)
        ]
        for (at_ns, kind, what), same in groupby(sorted(found), key=lambda one: one[:3]):
            yield Happening(at_ns=at_ns, kind=kind, what=f"{_places([one[3] for one in same])}: {what}")

    def _load_from(self) -> int:
        first = self._run.sums["sent"]["begin_ns"].min()
        return first if isinstance(first, int) else -FOREVER_NS


def _in_effect(fault: Fault, from_ns: int, to_ns: int) -> bool:
    until = FOREVER_NS if fault.healed_ns is None else fault.healed_ns
    return fault.effective_ns is not None and fault.effective_ns < to_ns and until > from_ns


def _named(fault: Fault) -> str:
    return f"{fault.id} ({fault.target})"


def _known(change: Change) -> bool:
    return (
        change.isr is not None if change.kind == "isr" else change.is_election and change.leader is not None
    )


def _changed(change: Change) -> tuple[str, str]:
    if change.kind == "isr":
        return "isr", f"ISR {', '.join(map(str, change.isr or ())) or 'empty'}"
    if change.leader == -1:
        return "no-leader", "no leader"
    return "election", f"broker {change.leader} was elected"


def _places(names: Iterable[Any]) -> str:
    every = list(names)
    more = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f" and {more} more" if more > 0 else "")
