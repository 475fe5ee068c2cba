"""Describes the events of the cluster and of groups within a time, and the likeliest causes of a silence.

Not here: finding standstills (questions/silences.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from kaput.analysis.facts.leader_history import Change, FaultRow, same_cluster
from kaput.core import FOREVER_NS, MS, TopicPartition
from kaput.evidence.findings_claims import Wait
from kaput.evidence.findings_service import NotableEvent
from kaput.scenario.vocabulary import NOOP

if TYPE_CHECKING:
    from kaput.analysis.run import Run

_BROKER_KINDS = ("fenced", "unfenced", "started", "stopped")
_MAX_SHOWN = 20  # events of one standstill
_MAX_NAMED = 3  # partitions of one change
_MOVES_PRODUCERS, _MOVES_GROUPS = ("fence", "move-producers", "fail-back"), ("move-groups", "fail-back")


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


class Cause(NamedTuple):
    """What held up a silence, likely. `fault`: its id; None for a rebalance, or a step of the plan."""

    text: str
    since_ns: int
    fault: str | None = None


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
        last = bisect_right(self._events, to_ns // MS * MS + MS - 1, key=lambda one: one.at_ns)
        mine = (one for one in self._events[first:last] if one.concerns(place, group))
        found = [
            (at_ns, kind, _places_prefix(str(one.place) for one in same if one.place) + what)
            for (at_ns, kind, what), same in groupby(mine, key=lambda one: one[:3])
        ]
        shown = [NotableEvent(at_ns=at, kind=kind, what=what) for at, kind, what in found[:_MAX_SHOWN]]
        return shown, max(0, len(found) - _MAX_SHOWN)

    def causes(
        self,
        from_ns: int,
        to_ns: int,
        place: TopicPartition | None,
        group: str | None,
        waits: Sequence[Wait] = (),
    ) -> list[Cause]:
        """The likeliest causes of a silence: faults whose heal it waited for, or that were in effect and hit
        this partition (or its owner in the group); else a rebalance of the group that it waited for; else a
        step of the plan that moved these clients. None of them: not known.
        """
        healed = {wait.fault for wait in waits}
        found: list[Cause] = []
        for fault in self._faults:
            if fault.fault == NOOP or not _in_effect(fault, from_ns, to_ns):
                continue
            text = self._hit(fault, from_ns, to_ns, place, group)
            if text is None and fault.id in healed:
                text = f"{_fault_text(fault)} was in effect; it waited for the heal"
            found += [Cause(text, fault.effective_ns or from_ns, fault.id)] if text is not None else []
        return found or self._rebalances(from_ns, to_ns, group, waits) or self._moves(from_ns, to_ns, group)

    def _rebalances(self, from_ns: int, to_ns: int, group: str | None, waits: Sequence[Wait]) -> list[Cause]:
        if not any(wait.condition == "rebalance" for wait in waits):
            return []
        return [
            Cause(f"group {group} rebalanced: {one.trigger}", one.started_ns)
            for one in self._run.rebalances.found
            if one.group == group
            and one.started_ns <= to_ns
            and (one.ended_ns is None or one.ended_ns >= from_ns)
        ][:1]

    def _moves(self, from_ns: int, to_ns: int, group: str | None) -> list[Cause]:
        kinds = _MOVES_PRODUCERS if group is None else _MOVES_GROUPS
        return [
            Cause(f"the plan's step {step['step']} was under way", step["started_ns"])
            for step in self._run.given.evidence.rows("plan")
            if step["kind"] in kinds
            and step["started_ns"] < to_ns
            and (step["ended_ns"] is None or step["ended_ns"] > from_ns)
        ][:1]

    def _hit(
        self, fault: FaultRow, from_ns: int, to_ns: int, place: TopicPartition | None, group: str | None
    ) -> str | None:
        """How a fault in effect hit a partition, or its owner in a group; None if it did not."""
        text = f"{_fault_text(fault)} was in effect"
        if fault.hit.members_of is not None:
            since, until = max(fault.effective_ns or from_ns, from_ns), min(_until_ns(fault), to_ns)
            return text if group is not None and self._owned(fault, since, until, place, group) else None
        if fault.hit.producer is not None and group is None:
            return text if place is None or self._sends_to(fault.hit.producer, place) else None
        if not fault.brokers:
            return None
        at_ns = max(fault.effective_ns or from_ns, from_ns)
        if place is None:
            every = self._run.leader_history.changes
            mine = every if group is None else self._run.given.places_of(group)
            hit = [one for one in every if one in mine and self._needed(fault, one, at_ns, group)]
            return f"{text}, and hit {_listed(hit)}" if hit else None
        needed = self._needed(fault, place, at_ns, group)
        return None if needed is None else f"{text}; {needed}"

    def _owned(
        self, fault: FaultRow, from_ns: int, to_ns: int, place: TopicPartition | None, group: str
    ) -> bool:
        """Whether a member that the fault hit owned the partition (without one: any) within that time, or was
        the last to own it.
        """
        for (of_group, one), history in self._run.record.owners.items():
            if of_group != group or place not in (None, one):
                continue
            ends = [*(at for at, _ in history[1:]), FOREVER_NS]
            last: frozenset[str] = frozenset()
            for (since, members), until in zip(history, ends, strict=True):
                last = members or last
                hit = any(fault.hit.includes_member(group, member) for member in last)
                if hit and since < to_ns and until > from_ns:
                    return True
        return False

    def _sends_to(self, producer: int, place: TopicPartition) -> bool:
        code = self._run.names.code(place)
        sent = self._run.sums["sent"].filter(producer=producer, place=code)
        return bool(sent.height)

    def _needed(self, fault: FaultRow, place: TopicPartition, at_ns: int, group: str | None) -> str | None:
        """What a fault's brokers were to a partition at a time: its leader, or members of the ISR if
        acknowledgements (or deliveries) wait for that; None if nothing.
        """
        history = self._run.leader_history
        if place not in history.changes or not same_cluster(fault, place):
            return None
        led = history.leader_before(place, at_ns)
        if led in fault.brokers:
            return f"broker {led} led {place}"
        if led is not None and led < 0 and (before := history.led_last(place, at_ns)) in fault.brokers:
            return f"{place} had no leader after broker {before}"
        in_sync = [broker for broker in history.isr_before(place, at_ns) if broker in fault.brokers]
        if in_sync and (group is not None or self._run.terms(place).acks_all):
            what = "acks=all waits for" if group is None else "records become visible with"
            return f"broker {in_sync[0]} was in the ISR of {place}, which {what}"
        return None

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


def _in_effect(fault: FaultRow, from_ns: int, to_ns: int) -> bool:
    return fault.effective_ns is not None and fault.effective_ns < to_ns and _until_ns(fault) > from_ns


def _until_ns(fault: FaultRow) -> int:
    return FOREVER_NS if fault.healed_ns is None else fault.healed_ns


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
    isr = "" if change.isr is None else f", ISR {', '.join(map(str, change.isr)) or 'empty'}"
    return "election", f"broker {change.leader} was elected{isr}"


def _places_prefix(places: Iterable[str]) -> str:
    """`orders/0, orders/1: `: the prefix for partitions with the same change at the same time."""
    every = list(places)
    return f"{_listed(every)}: " if every else ""


def _listed(places: Sequence[object]) -> str:
    """`orders/0, orders/1 and 4 more`"""
    more = len(places) - _MAX_NAMED
    return ", ".join(map(str, places[:_MAX_NAMED])) + (f" and {more} more" if more > 0 else "")
