"""Finds the rebalances of each group: when its partitions changed owners, why, and how long they had none.

From the small tables, on the driver; defined in docs/GLOSSARY.md. Not here: what was delivered to members
around a rebalance (questions/handovers.py), which the tasks count.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kaput.analysis.facts.assignments import REMOVAL_KINDS, Event, concerns, place_of
from kaput.analysis.facts.leader_history import served_ns
from kaput.core import MS, TopicPartition, cluster_and_topic
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.schemas import SEEK, SKIPPED
from kaput.scenario.fault_kinds import RESIZE
from kaput.scenario.vocabulary import NOOP

TOGETHER_NS = 1_000_000_000  # changes at most this far apart are one rebalance
SESSION_NS = 45_000_000_000  # the default session timeout: how long a group waits for a silent member
UNKNOWN = "unknown"
STAYED = " (static: each partition went back to the member that had it)"
_MEMBERSHIP_KINDS = ("joined", "left", "killed")


@dataclass
class Rebalance:
    """One rebalance of one group. `ended_ns` is None if some partition never had an owner again.
    `started_ns`: its first change of owner, or the loss of a member before it, which its group noticed later.
    `unowned_ns`: summed over partitions. `revoked`, `assigned`: by member, the time of its first revocation
    and of its last assignment. `returned`: members that had lost everything before; `lost`: those that lost
    something in it. `to_others`: whether any reassigned partition went to another place in the group; None if
    none was reassigned. `whole_ns`: when every partition first had an owner again; `changed_ns`: its last
    change; `topics`: those assigned to anybody in the group by then; `resumed_ns`: when the last partition
    that had an owner before it was read again; `unresumed`: how many were not. `moved`: the cluster it was
    moved to; `closes`: not a rebalance, but the end of the group; `fresh`: partitions that were first
    assigned in it, in a group that had others before.
    """

    group: str
    started_ns: int
    closes: bool = False
    moved: str | None = None
    ended_ns: int | None = None
    whole_ns: int | None = None
    changed_ns: int = 0
    resumed_ns: int | None = None
    unresumed: int = 0
    trigger: str = UNKNOWN
    members: int = 0
    unowned_ns: int = 0
    revoked: dict[str, int] = field(default_factory=dict)
    assigned: dict[str, int] = field(default_factory=dict)
    returned: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    to_others: bool | None = None
    topics: set[str] = field(default_factory=set)
    fresh: set[TopicPartition] = field(default_factory=set)


@dataclass(frozen=True)
class Assigned:
    """An assignment of a partition. `again`: the partition had an owner before this rebalance, and this is
    its last assignment in it.
    """

    group: str
    member: str
    place: TopicPartition
    at_ns: int
    rebalance: int
    again: bool = False


@dataclass(frozen=True)
class Rebalances:
    """All rebalances of a run, by group and time; handovers refer to them by index."""

    found: Sequence[Rebalance] = ()
    handovers: Sequence[Assigned] = ()


def find(
    events: Iterable[Event],
    until_ns: int | None,
    last_delivery_ns: Mapping[str, int],
    faults: Sequence[FaultRow] = (),
    share_groups: Collection[str] = (),
) -> Rebalances:
    """Finds every rebalance. `until_ns`: the end of the run, up to which unowned partitions are counted;
    `last_delivery_ns`: by group. A partition may have several owners in a share group only.
    """
    by_group: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event["kind"] not in ("committed", "refused", SEEK, SKIPPED):
            by_group[event["group"]].append(event)
    known: list[Rebalance] = []
    handovers: list[Assigned] = []
    pauses = [one for one in faults if one.proven and one.fault == "pause"]
    for group, mine in sorted(by_group.items()):
        ordered = sorted(mine, key=_event_order)
        ownership = _Ownership(group, ordered, last_delivery_ns.get(group), pauses, group in share_groups)
        ownership.play(until_ns)
        handovers += [replace(one, rebalance=one.rebalance + len(known)) for one in ownership.handovers]
        known += ownership.rebalances
    return Rebalances(known, handovers)


def _event_order(event: Event) -> tuple[Any, ...]:
    """Sort key: at equal times `assigned` comes last; the rest makes the order deterministic."""
    topic, partition = event["topic"], event["partition"]
    kind, offset = event["kind"], event["offset"]
    rest = (topic or "", -1 if partition is None else partition, -1 if offset is None else offset)
    return (event["at_ns"], kind == "assigned", kind, event["member"], *rest)


class _Ownership:
    """Tracks the owners of one group's partitions, event by event. `pauses`: faults that freeze members."""

    def __init__(
        self,
        group: str,
        events: Sequence[Event],
        last_delivery_ns: int | None,
        pauses: Sequence[FaultRow],
        shared: bool,
    ) -> None:
        self.group, self.events, self._pauses, self._shared = group, events, pauses, shared
        came = [event["at_ns"] for event in events if event["kind"] in ("joined", "killed")]
        # Partitions given up after this mark the end of the group.
        self._last_activity_ns = max(
            (*came, *([] if last_delivery_ns is None else [last_delivery_ns])), default=None
        )
        self.rebalances: list[Rebalance] = []
        self.handovers: list[Assigned] = []
        # The owners of every partition assigned so far, and since when each has it.
        self._owners: dict[TopicPartition, dict[str, int]] = {}
        self._unowned_since: dict[TopicPartition, int] = {}  # when it lost its last owner (ns)
        self._before: set[TopicPartition] = set()  # the partitions assigned before the last rebalance
        self._last_handover: dict[TopicPartition, int] = {}  # the index of the last handover of each
        self._live: set[str] = set()
        self._lost: dict[str, int] = {}  # members that lost everything, and when

    def play(self, until_ns: int | None) -> None:
        """Finds the rebalances."""
        for event in self.events:
            self._track_member(event)
            if event["kind"] == "assigned":
                self._assign(event)
            elif touched := self._removed(event):
                self._remove(event, touched)
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

    def _assign(self, event: Event) -> None:
        """Gives a partition an owner; one it had until then gave it up without its own notice."""
        member, place, at_ns = event["member"], place_of(event), event["at_ns"]
        if place is None or member in self._owners.setdefault(place, {}):
            return
        last = self._extended(event)
        self._leave_cluster(place, last, at_ns)
        before = {} if self._shared else self._owners[place]
        since_ns = self._unowned_since.pop(place, None)
        if before:
            since_ns = max(self._frozen_ns(one, since, at_ns) for one, since in before.items())
            last.started_ns = min(last.started_ns, since_ns)
        self._owners[place] = {**({} if before else self._owners[place]), member: at_ns}
        for one in before:
            self._note_lost(one, at_ns)
        last.unowned_ns += 0 if since_ns is None else at_ns - since_ns
        again = last.moved is not None or (since_ns is not None and place in self._before)
        if again and (last_owner := self._last_owner(place)) is not None:
            last.to_others = bool(last.to_others) or _slot(last_owner) != _slot(member)
        if self._before and place not in self._last_handover:
            last.fresh.add(place)
        self._hand_over(Assigned(self.group, member, place, at_ns, len(self.rebalances) - 1, again))
        last.assigned[member] = at_ns
        if self._lost.pop(member, last.started_ns) < last.started_ns:
            last.returned.add(member)
        self._conclude(last, at_ns)

    def _last_owner(self, place: TopicPartition) -> str | None:
        at = self._last_handover.get(place)
        return None if at is None else self.handovers[at].member

    def _hand_over(self, given: Assigned) -> None:
        at = self._last_handover.get(given.place)
        if given.again and at is not None and self.handovers[at].rebalance == given.rebalance:
            self.handovers[at] = replace(self.handovers[at], again=False)
        self._last_handover[given.place] = len(self.handovers)
        self.handovers.append(given)

    def _frozen_ns(self, member: str, since_ns: int, at_ns: int) -> int:
        """Since when a member could not work on a partition that it had since `since_ns` and that another was
        assigned at `at_ns`: since it was frozen; else, as far as is known, it worked until then.
        """
        frozen = [
            one.effective_ns
            for one in self._pauses
            if one.effective_ns is not None
            and since_ns <= one.effective_ns <= at_ns
            and one.hit.includes_member(self.group, member)
        ]
        return max(frozen, default=at_ns)

    def _leave_cluster(self, place: TopicPartition, last: Rebalance, at_ns: int) -> None:
        """If a group is assigned a partition in another cluster, it has left those that it had: they were
        without owner until now, and not longer.
        """
        cluster = cluster_and_topic(place.topic)[0]
        for one in [one for one in self._owners if cluster_and_topic(one.topic)[0] != cluster]:
            last.unowned_ns += at_ns - self._unowned_since.pop(one, at_ns)
            last.moved = cluster
            del self._owners[one]

    def _removed(self, event: Event) -> list[TopicPartition]:
        """The partitions that an event takes from their owner."""
        if event["kind"] not in REMOVAL_KINDS:
            return []
        return [p for p, owners in self._owners.items() if event["member"] in owners and concerns(event, p)]

    def _remove(self, event: Event, touched: Sequence[TopicPartition]) -> None:
        at_ns, member = event["at_ns"], event["member"]
        last = self._extended(event)
        if event["kind"] == "lost":
            last.lost.add(member)
        last.revoked.setdefault(member, at_ns)
        for place in touched:
            del self._owners[place][member]
            if not self._owners[place]:
                self._unowned_since[place] = at_ns
        if event["kind"] == "lost":
            self._note_lost(member, at_ns)
        self._conclude(last, at_ns)

    def _note_lost(self, member: str, at_ns: int) -> None:
        if not any(member in owners for owners in self._owners.values()):
            self._lost[member] = at_ns

    def _extended(self, event: Event) -> Rebalance:
        """The rebalance that a change belongs to: the last one, or a new one."""
        last = self.rebalances[-1] if self.rebalances else None
        if last is None or (last.ended_ns is not None and self._is_separate(event, last)):
            last = Rebalance(self.group, event["at_ns"], closes=self._closes(event))
            self.rebalances.append(last)
            self._before = set(self._last_handover)
        return last

    def _conclude(self, last: Rebalance, at_ns: int) -> None:
        last.changed_ns = at_ns
        last.topics = {topic for topic, _ in self._owners}
        last.ended_ns = at_ns if all(self._owners.values()) else None
        last.whole_ns = last.ended_ns if last.whole_ns is None else last.whole_ns

    def _is_separate(self, event: Event, last: Rebalance) -> bool:
        """Whether a change after a finished rebalance begins another. The end of a group always does."""
        soon = event["at_ns"] - last.changed_ns <= TOGETHER_NS
        return not soon or (self._closes(event) and not last.closes)

    def _closes(self, event: Event) -> bool:
        """Whether the event ends the group: a clean exit, no joining and no delivery afterwards."""
        quiet = self._last_activity_ns is None or event["at_ns"] > self._last_activity_ns
        return quiet and event["kind"] in ("revoked", "lost", "left")


def explain(
    rebalances: Sequence[Rebalance],
    events: Sequence[Event],
    faults: Sequence[FaultRow],
    cluster_events: Sequence[Mapping[str, Any]],
    sessions_ns: Mapping[str, int],
    static: Collection[str] = (),
) -> None:
    """Sets the trigger of each rebalance. `sessions_ns`: the session timeout of each group, if known.
    `static`: the groups of static members.
    """
    by_group: defaultdict[str, list[Rebalance]] = defaultdict(list)
    for rebalance in rebalances:
        by_group[rebalance.group].append(rebalance)
    for group, mine in by_group.items():
        members = [e for e in events if e["group"] == group and e["kind"] in _MEMBERSHIP_KINDS]
        for previous, rebalance, following in zip([None, *mine], mine, [*mine[1:], None], strict=False):
            from_ns = rebalance.started_ns - sessions_ns.get(group, SESSION_NS)
            if previous is not None:
                # A member may have been frozen before the last change of the previous one.
                from_ns = max(from_ns, min(previous.changed_ns, rebalance.started_ns - 1))
            every = [
                *_membership(rebalance, [previous, following], members, from_ns),
                *_returns_and_moves(rebalance),
                *_faults(rebalance, faults, cluster_events, from_ns),
                *_brokers(rebalance, cluster_events, from_ns),
            ]
            rebalance.trigger = _likeliest(every) or _new_partitions(rebalance) or _lost(rebalance) or UNKNOWN
            if group in static and rebalance.to_others is False and rebalance.ended_ns is not None:
                rebalance.trigger += STAYED


def _slot(member: str) -> str:
    """A member's place in its group, which its next process takes: `member-2` of `member-2.2`."""
    return re.sub(r"\.\d+$", "", member)


class _Trigger(NamedTuple):
    """What may have begun a rebalance. `rank`: how directly it changes what members own."""

    at_ns: int
    rank: int
    text: str


def _likeliest(every: Sequence[_Trigger]) -> str | None:
    """The last one, or a more direct one shortly before it."""
    last_ns = max((one.at_ns for one in every), default=0)
    close = [one for one in every if one.at_ns >= last_ns - TOGETHER_NS]
    return max(close, key=lambda one: (one.rank, one.at_ns, one.text)).text if close else None


def _precedes(at_ns: int, rebalance: Rebalance) -> bool:
    """Whether a record is from before a rebalance: some have a resolution of 1 ms."""
    return at_ns // MS <= rebalance.started_ns // MS


def _membership(
    rebalance: Rebalance, others: Sequence[Rebalance | None], events: Sequence[Event], from_ns: int
) -> Iterator[_Trigger]:
    """Who was killed, left or joined: before it, or as part of it. `others`: the ones before and after."""
    previous, following = others
    inside = [e for e in events if _part_of(rebalance, e, following) and _may_have_begun(rebalance, e)]
    rest = [e for e in events if previous is None or not _is_over_with(previous, e, rebalance)]
    before = [e for e in rest if from_ns < e["at_ns"] and _precedes(e["at_ns"], rebalance)]
    for rank, known in ((4, before), (3, inside)):
        if known:
            # Of several, the last before it, and the first within it.
            one = (max if known is before else min)(known, key=_event_order)
            at_ns = min(one["at_ns"], rebalance.started_ns)
            yield _Trigger(at_ns, rank, _came_or_went(one, [*before, *inside]))


def _part_of(rebalance: Rebalance, event: Event, following: Rebalance | None) -> bool:
    """Whether a member's coming or going belongs to a rebalance, though it was recorded after its beginning.
    A member may record that it joined only when it is assigned something, or when the group is at rest and
    there is nothing for it (unless the following rebalance begins just then); and that it left, or was
    killed, after its partitions were given up.
    """
    at_ns, member, since_ns = int(event["at_ns"]), event["member"], rebalance.started_ns
    if event["kind"] != "joined":
        until_ns = rebalance.changed_ns if member in rebalance.revoked else since_ns
        return since_ns < at_ns <= until_ns + TOGETHER_NS
    idle = member not in rebalance.assigned
    if idle and following is not None and 0 <= following.started_ns - at_ns <= TOGETHER_NS:
        return False
    return since_ns < at_ns <= rebalance.assigned.get(member, rebalance.changed_ns) + TOGETHER_NS


def _may_have_begun(rebalance: Rebalance, event: Event) -> bool:
    """Whether a member's coming or going within a rebalance may have come before it: what is recorded when
    every partition had an owner again, or long after the member had first given up any, did not. Nor did the
    next process of a member that gave up some in it.
    """
    began_ns = rebalance.started_ns
    if event["kind"] != "joined":
        began_ns = rebalance.revoked.get(event["member"], began_ns)
    elif any(
        gone != event["member"] and _slot(gone) == _slot(event["member"]) and at_ns <= event["at_ns"]
        for gone, at_ns in rebalance.revoked.items()
    ):
        return False
    elif event["member"] not in rebalance.assigned or rebalance.whole_ns is None:
        return True
    else:
        began_ns = rebalance.whole_ns
    return bool(event["at_ns"] <= began_ns + TOGETHER_NS)


def _is_over_with(previous: Rebalance, event: Event, rebalance: Rebalance) -> bool:
    """Whether a member's coming or going belongs to the rebalance before, and did not begin this one as well:
    a member for which there was nothing in the one before may have joined after it, and be given its share.
    """
    joined, member = event["kind"] == "joined", event["member"]
    late = event["at_ns"] > previous.changed_ns and member not in previous.assigned
    return _part_of(previous, event, rebalance) and not (joined and late and member in rebalance.assigned)


def _came_or_went(event: Event, known: Iterable[Event]) -> str:
    kind = event["kind"]
    close = [e for e in known if e["kind"] == kind and abs(e["at_ns"] - event["at_ns"]) <= TOGETHER_NS]
    who = sorted({e["member"] for e in close})
    went = "joined" if kind == "joined" else "left" if kind == "left" else "was killed"
    return f"{', '.join(who)} {'were killed' if kind == 'killed' and len(who) > 1 else went}"


def _returns_and_moves(rebalance: Rebalance) -> Iterator[_Trigger]:
    """The group was moved to another cluster, or members that had lost everything were assigned something."""
    if rebalance.moved is not None:
        yield _Trigger(rebalance.started_ns, 5, f"the group was moved to {rebalance.moved}")
    if rebalance.returned:
        yield _Trigger(rebalance.started_ns, 2, f"{', '.join(sorted(rebalance.returned))} came back")


def _new_partitions(rebalance: Rebalance) -> str | None:
    """How many partitions, of which topics, the group had never been assigned before."""
    counts = Counter(topic for topic, _ in rebalance.fresh)
    new = [f"{count} of {topic}" for topic, count in sorted(counts.items())]
    return f"partitions new to the group: {', '.join(new)}" if new else None


def _lost(rebalance: Rebalance) -> str | None:
    """Members that lost partitions because their sessions had ended."""
    who = sorted(rebalance.lost)
    return f"{', '.join(who)} lost {'its' if len(who) == 1 else 'their'} partitions" if who else None


def _faults(
    rebalance: Rebalance,
    faults: Sequence[FaultRow],
    cluster_events: Sequence[Mapping[str, Any]],
    from_ns: int,
) -> Iterator[_Trigger]:
    """The relevant faults that took effect or ended before it."""
    for fault in faults:
        if not fault.proven or fault.fault == NOOP or not _may_concern(fault, rebalance):
            continue
        effective_ns = fault.effective_ns or 0
        # It took hold at some time between its injection and the proof of its effect.
        if effective_ns > from_ns and _precedes(fault.injected_ns, rebalance):
            at_ns = min(effective_ns, rebalance.started_ns)
            yield _Trigger(at_ns, 1, f"{fault.fault} {fault.target}")
        healed_ns = None if fault.fault == RESIZE else served_ns(fault, cluster_events)
        if healed_ns is not None and healed_ns > from_ns and _precedes(healed_ns, rebalance):
            yield _Trigger(healed_ns, 1, f"end of {fault.fault} {fault.target}")


def _may_concern(fault: FaultRow, rebalance: Rebalance) -> bool:
    """Whether the fault may affect the group: any broker fault, or one of its own topics or members."""
    if fault.fault == RESIZE:
        topic = fault.hit.whole_topic
        return topic in rebalance.topics or topic in {cluster_and_topic(name)[1] for name in rebalance.topics}
    return bool(fault.brokers) or fault.hit.members_of == rebalance.group


def _brokers(
    rebalance: Rebalance, cluster_events: Sequence[Mapping[str, Any]], from_ns: int
) -> Iterator[_Trigger]:
    """The brokers that stopped before it."""
    for e in cluster_events:
        stopped = e["kind"] == "stopped" and e["broker"] is not None
        if stopped and e["at_ns"] > from_ns and _precedes(e["at_ns"], rebalance):
            yield _Trigger(e["at_ns"], 0, f"broker {e['broker']} stopped")
