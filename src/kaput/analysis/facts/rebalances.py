"""Finds the rebalances of each group: when its partitions changed owners, why, and how long they had none.

From the small tables, on the driver; defined in docs/GLOSSARY.md. Not here: what was delivered to members
around a rebalance (questions/handovers.py), which the tasks count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kaput.analysis.facts.assignments import REMOVAL_KINDS, Event, concerns, place_of
from kaput.analysis.facts.leader_history import FaultRow
from kaput.core import TopicPartition, cluster_and_topic
from kaput.evidence.schemas import SEEK
from kaput.scenario.options import RESIZE
from kaput.scenario.values import target_group, target_topic
from kaput.scenario.vocabulary import NOOP

TOGETHER_NS = 1_000_000_000  # changes at most this far apart are one rebalance
LOOK_BACK_NS = 60_000_000_000  # how far before a rebalance its trigger may be
UNKNOWN = "unknown"
_MEMBERSHIP_KINDS = ("joined", "left", "killed")


@dataclass
class Rebalance:
    """One rebalance of one group. `ended_ns` is None if some partition never had an owner again.

    `unowned_ns`: summed over partitions. `revoked`, `assigned`: by member, the time of its first revocation
    and of its last assignment. `returned`: members that had lost everything before; `lost`: those that lost
    something in it. `changed_ns`: its last change; `topics`: those assigned to anybody in the group by then;
    `closes`: not a rebalance, but the end of the group.
    """

    group: str
    started_ns: int
    closes: bool = False
    ended_ns: int | None = None
    changed_ns: int = 0
    trigger: str = UNKNOWN
    members: int = 0
    unowned_ns: int = 0
    revoked: dict[str, int] = field(default_factory=dict)
    assigned: dict[str, int] = field(default_factory=dict)
    returned: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Assigned:
    """An assignment of a partition, with the index of the rebalance that it belongs to."""

    group: str
    place: TopicPartition
    at_ns: int
    rebalance: int


@dataclass(frozen=True)
class Rebalances:
    """All rebalances of a run, by group and time; handovers refer to them by index."""

    found: Sequence[Rebalance] = ()
    handovers: Sequence[Assigned] = ()


def find(events: Iterable[Event], until_ns: int | None, last_delivery_ns: Mapping[str, int]) -> Rebalances:
    """Finds every rebalance. `until_ns`: the end of the run, up to which unowned partitions are counted;
    `last_delivery_ns`: by group.
    """
    by_group: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event["kind"] not in ("committed", "refused", SEEK):
            by_group[event["group"]].append(event)
    found: list[Rebalance] = []
    handovers: list[Assigned] = []
    for group, mine in sorted(by_group.items()):
        ownership = _Ownership(group, sorted(mine, key=_event_order), last_delivery_ns.get(group))
        ownership.play(until_ns)
        handovers += [Assigned(group, place, at, n + len(found)) for place, at, n in ownership.handovers]
        found += ownership.rebalances
    return Rebalances(found, handovers)


def _event_order(event: Event) -> tuple[Any, ...]:
    """Sort key: at equal times `assigned` comes last; the rest makes the order deterministic."""
    topic, partition = event["topic"], event["partition"]
    kind, offset = event["kind"], event["offset"]
    rest = (topic or "", -1 if partition is None else partition, -1 if offset is None else offset)
    return (event["at_ns"], kind == "assigned", kind, event["member"], *rest)


class _Ownership:
    """Tracks the owners of one group's partitions, event by event."""

    def __init__(self, group: str, events: Sequence[Event], last_delivery_ns: int | None) -> None:
        self.group, self.events = group, events
        came = [event["at_ns"] for event in events if event["kind"] in ("joined", "killed")]
        # Partitions given up after this mark the end of the group.
        self._last_activity_ns = max(
            (*came, *([] if last_delivery_ns is None else [last_delivery_ns])), default=None
        )
        self.rebalances: list[Rebalance] = []
        self.handovers: list[tuple[TopicPartition, int, int]] = []
        self._owners: dict[TopicPartition, set[str]] = {}  # of every partition assigned so far
        self._unowned_since: dict[TopicPartition, int] = {}  # when it lost its last owner (ns)
        self._live: set[str] = set()
        self._lost: dict[str, int] = {}  # members that lost everything, and when

    def play(self, until_ns: int | None) -> None:
        """Finds the rebalances."""
        for event in self.events:
            self._track_member(event)
            touched = self._change(event)
            if touched:
                self._extend(event, touched)
            if self.rebalances and self.rebalances[-1].changed_ns >= event["at_ns"] - TOGETHER_NS:
                self.rebalances[-1].members = len(self._live)
        last_ns = self.events[-1]["at_ns"] if until_ns is None else until_ns
        for since in self._unowned_since.values():
            self.rebalances[-1].unowned_ns += max(0, last_ns - since)

    def _track_member(self, event: Event) -> None:
        if event["kind"] in ("joined", "assigned"):
            self._live.add(event["member"])
        elif event["kind"] in ("left", "killed"):
            self._live.discard(event["member"])

    def _change(self, event: Event) -> list[TopicPartition]:
        """Applies the event. Returns the partitions whose owners it changes."""
        member, place = event["member"], place_of(event)
        if event["kind"] == "assigned":
            if place is None or member in self._owners.setdefault(place, set()):
                return []
            self._owners[place].add(member)
            return [place]
        if event["kind"] not in REMOVAL_KINDS:
            return []
        touched = [p for p in self._owners if member in self._owners[p] and concerns(event, p)]
        for one in touched:
            self._owners[one].discard(member)
        return touched

    def _extend(self, event: Event, touched: Sequence[TopicPartition]) -> None:
        """Adds the change to the last rebalance, or begins a new one."""
        at_ns, member = event["at_ns"], event["member"]
        last = self.rebalances[-1] if self.rebalances else None
        if last is None or (last.ended_ns is not None and self._is_separate(event, last)):
            last = Rebalance(self.group, at_ns, closes=self._closes(event))
            self.rebalances.append(last)
        last.changed_ns = at_ns
        last.topics = {topic for topic, _ in self._owners}
        if event["kind"] == "lost":
            last.lost.add(member)
        for place in touched:
            if event["kind"] == "assigned":
                last.unowned_ns += at_ns - self._unowned_since.pop(place, at_ns)
                self.handovers.append((place, at_ns, len(self.rebalances) - 1))
                last.assigned[member] = at_ns
                if self._lost.pop(member, last.started_ns) < last.started_ns:
                    last.returned.add(member)
            else:
                last.revoked.setdefault(member, at_ns)
                if event["kind"] == "lost" and not any(member in owners for owners in self._owners.values()):
                    self._lost[member] = at_ns
                if not self._owners[place]:
                    self._unowned_since[place] = at_ns
        last.ended_ns = at_ns if all(self._owners.values()) else None

    def _is_separate(self, event: Event, last: Rebalance) -> bool:
        """Whether a change after a finished rebalance begins another. The end of a group always does."""
        soon = event["at_ns"] - last.changed_ns <= TOGETHER_NS
        return not soon or (self._closes(event) and not last.closes)

    def _closes(self, event: Event) -> bool:
        """Whether the event belongs to the end of the group: a clean exit, with no member joining and nothing
        delivered afterwards.
        """
        quiet = self._last_activity_ns is None or event["at_ns"] > self._last_activity_ns
        return quiet and event["kind"] in ("revoked", "lost", "left")


def explain(
    found: Sequence[Rebalance],
    events: Sequence[Event],
    faults: Sequence[FaultRow],
    cluster_events: Sequence[Mapping[str, Any]],
) -> None:
    """Sets the trigger of each rebalance."""
    before_ns: dict[str, int] = {}
    for rebalance in found:
        since_ns = before_ns.get(rebalance.group, -1)
        rebalance.trigger = (
            _membership_trigger(rebalance, events, since_ns)
            or _return_trigger(rebalance)
            or _fault(rebalance, faults, since_ns)
            or _broker(rebalance, cluster_events, since_ns)
            or _lost(rebalance)
            or UNKNOWN
        )
        before_ns[rebalance.group] = rebalance.changed_ns + TOGETHER_NS


def _membership_trigger(rebalance: Rebalance, events: Sequence[Event], since_ns: int) -> str | None:
    """Who was killed, left or joined: the last of these before it began, else the first within it."""
    known = [
        e
        for e in events
        if e["group"] == rebalance.group
        and e["kind"] in _MEMBERSHIP_KINDS
        and max(since_ns, rebalance.started_ns - _look_back_ns(e)) < e["at_ns"] <= rebalance.changed_ns
    ]
    if not known:
        return None
    before = [e for e in known if e["at_ns"] <= rebalance.started_ns]
    kind = (max(before, key=_event_order) if before else min(known, key=_event_order))["kind"]
    who = sorted({e["member"] for e in known if e["kind"] == kind})
    went = "joined" if kind == "joined" else "left" if kind == "left" else "was killed"
    return f"{', '.join(who)} {'were killed' if kind == 'killed' and len(who) > 1 else went}"


def _return_trigger(rebalance: Rebalance) -> str | None:
    """Members that had lost everything and were assigned something again."""
    return f"{', '.join(sorted(rebalance.returned))} came back" if rebalance.returned else None


def _lost(rebalance: Rebalance) -> str | None:
    """Members that lost partitions because their sessions had ended."""
    who = sorted(rebalance.lost)
    return f"{', '.join(who)} lost {'its' if len(who) == 1 else 'their'} partitions" if who else None


def _look_back_ns(event: Event) -> int:
    """How far before the rebalance the event may be: a join triggers it at once, a death after a while."""
    return TOGETHER_NS if event["kind"] == "joined" else LOOK_BACK_NS


def _fault(rebalance: Rebalance, faults: Sequence[FaultRow], since_ns: int) -> str | None:
    """The relevant fault that took effect or ended last before it."""
    moments = [
        (at_ns, trigger)
        for fault in faults
        if fault.proven and fault.fault != NOOP and _may_concern(fault, rebalance)
        for at_ns, trigger in _moments(fault)
        if max(since_ns, rebalance.started_ns - LOOK_BACK_NS) < at_ns <= rebalance.started_ns
    ]
    return max(moments)[1] if moments else None


def _may_concern(fault: FaultRow, rebalance: Rebalance) -> bool:
    """Whether the fault may affect the group: any broker fault, or one of its own topics or members."""
    if fault.fault == RESIZE:
        topic = target_topic(fault.target)
        return topic in rebalance.topics or topic in {cluster_and_topic(name)[1] for name in rebalance.topics}
    return bool(fault.brokers) or target_group(fault.target) == rebalance.group


def _moments(fault: FaultRow) -> Iterator[tuple[int, str]]:
    # Members may see new partitions before the resize takes effect.
    began_ns = fault.injected_ns if fault.fault == RESIZE else fault.effective_ns
    if began_ns is not None:
        yield began_ns, f"{fault.fault} {fault.target}"
    if fault.healed_ns is not None and fault.fault != RESIZE:
        yield fault.healed_ns, f"end of {fault.fault} {fault.target}"


def _broker(rebalance: Rebalance, cluster_events: Sequence[Mapping[str, Any]], since_ns: int) -> str | None:
    """The broker that stopped last before it."""
    stopped = [
        (e["at_ns"], f"broker {e['broker']} stopped")
        for e in cluster_events
        if e["kind"] == "stopped"
        and e["broker"] is not None
        and max(since_ns, rebalance.started_ns - LOOK_BACK_NS) < e["at_ns"] <= rebalance.started_ns
    ]
    return max(stopped)[1] if stopped else None
