"""The leadership history of each partition: epochs, elections and ISRs, from the small tables. No Spark.

Built on the driver from cluster_events, faults, end_offsets and a summary of the log (partitions.py);
causes/ and reach.py compare messages with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from kaput.core import MS, TopicPartition, cluster_and_topic
from kaput.evidence.fault_rows import FaultRow
from kaput.scenario.fault_kinds import DELETE_TOPICS, MOVES, MOVES_REPLICAS
from kaput.scenario.vocabulary import DISK_LOSS, NOOP, UNSYNCED_DATA_FAULTS

# Faults that end a process: when started again, it registers anew, and serves no client until it is unfenced.
# As long as its last session counts, which may be until it times out, it cannot register.
ENDS_PROCESS = frozenset({"kill", "stop", "power-loss", DISK_LOSS})
IsDown = Callable[[int, int, str | None], bool]  # of a broker, at a time (ns), in a cluster


@dataclass(frozen=True)
class Change:
    """One leader or isr event of a partition. `led_before`: the last leader before that led for any time,
    else the first (never -1), None at first; `within_ns`: how much earlier than `at_ns` it may have been (0:
    the cluster itself recorded it); `unclean`: None if the ISR before is not recorded; `elr`: the eligible
    leader replicas; `leaderless_ns`: of an election, how long there had been no leader (-1), None if there
    was one; `led_nothing`: another leader event of the partition followed in the same ms, or before the
    process of this leader was there and unfenced; `elected_before`: the last leader before, also if it led
    nothing.
    """

    at_ns: int
    kind: str
    leader: int | None
    epoch: int | None
    isr: tuple[int, ...] | None
    led_before: int | None
    unclean: bool | None = False
    fault: str | None = None
    within_ns: int = 0
    elr: tuple[int, ...] = ()
    leaderless_ns: int | None = None
    led_nothing: bool = False
    elected_before: int | None = None

    def may_precede(self, at_ns: int) -> bool:
        """Whether it may have happened by then: times are whole ms, and polled ones are late."""
        return (self.at_ns - self.within_ns) // MS <= at_ns // MS

    @property
    def is_election(self) -> bool:
        """Whether it is a leader event after an earlier leader."""
        return self.kind == "leader" and self.led_before is not None

    @property
    def has_new_leader(self) -> bool:
        """Whether it is an election that a broker won, and led for any time."""
        return self.is_election and not self.led_nothing and self.leader is not None and self.leader >= 0

    @property
    def planned(self) -> bool | None:
        """Whether the old leader was still in sync: whatever fails or stops leaves the ISR with the election.
        None if that is not recorded.
        """
        if self.isr is None or self.within_ns or not self.has_new_leader or self.leader == self.led_before:
            return None
        return self.led_before in self.isr


class PartitionState(NamedTuple):
    """What is known of a partition at a time. `leader`: None if none is recorded, -1 for no leader;
    `led_last`: the last broker that led; `isr`, `elr`: None if not recorded.
    """

    leader: int | None = None
    epoch: int | None = None
    isr: tuple[int, ...] | None = None
    elr: tuple[int, ...] = ()
    led_last: int | None = None

    @property
    def holders(self) -> set[int | None]:
        """Its leader, or the last one, and the ISR."""
        return {self.leader if (self.leader or 0) >= 0 else self.led_last, *(self.isr or ())}


def state_after(changes: Iterable[Change], now: PartitionState | None = None) -> PartitionState:
    """The state after these changes, by time; `now`: the one before them."""
    now = now or PartitionState()
    for one in changes:
        if one.leader is not None:
            now = now._replace(leader=one.leader, led_last=one.leader if one.leader >= 0 else now.led_last)
        if one.epoch is not None:
            now = now._replace(epoch=one.epoch)
        if one.isr is not None:
            now = now._replace(isr=one.isr, elr=one.elr)
    return now


@dataclass(frozen=True)
class Epoch:
    """A leader epoch. `start`: the offset from which the log belongs to it or later ones. Fields are None if
    no event tells. earliest: the lowest offset at which it may have started, if records in between have no
    epoch; logged: whether it has a record. leader: its leader, or the next one if it had none; led_last: its
    leader, or the previous one if it had none. changed: whether its leader differs from the previous; None if
    not both are known. within_ns: how much earlier than `at_ns` it may have begun, due to polling. unclean:
    None if the events do not tell.
    """

    number: int
    start: int
    at_ns: int | None = None
    unclean: bool | None = None
    fault: str | None = None
    earliest: int = 0
    logged: bool = False
    leader: int | None = None
    led_last: int | None = None
    changed: bool | None = None
    within_ns: int = 0


@dataclass(frozen=True)
class PowerCut:
    """A proven fault that takes a broker's unsynced data, or all of its data (`disk`). `healed_ns`:
    FOREVER_NS if never.
    """

    broker: int
    effective_ns: int
    healed_ns: int
    disk: bool = False


@dataclass(frozen=True)
class LeaderHistory:
    """Every partition's changes by time, and its epochs by number."""

    changes: Mapping[TopicPartition, Sequence[Change]] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, Sequence[Epoch]] = field(default_factory=dict)
    power_losses: Sequence[PowerCut] = ()

    def before(self, place: TopicPartition, at_ns: int) -> PartitionState:
        """The last recorded state before a time."""
        return state_after(c for c in self.changes[place] if c.at_ns // MS < at_ns // MS)

    def possible_by(self, place: TopicPartition, at_ns: int) -> PartitionState:
        """The last state that may have been reached by then: what was polled is recorded late."""
        return state_after(change for change in self.changes[place] if change.may_precede(at_ns))

    def led(self, place: TopicPartition) -> bool:
        """Whether all leaders of the partition are recorded with their epochs."""
        leads = [change for change in self.changes.get(place, ()) if change.kind == "leader"]
        return bool(leads) and all(c.leader is not None and c.epoch is not None for c in leads)

    def elected_ns(self, place: TopicPartition, epoch: int) -> int | None:
        """When the first leader was elected from an epoch on; None if none is recorded."""
        won = (one for one in self.changes.get(place, ()) if one.has_new_leader)
        return min((one.at_ns for one in won if one.epoch is not None and one.epoch >= epoch), default=None)

    def had_one_leader(self, place: TopicPartition, until_ns: int) -> bool:
        """Whether only one epoch, the first, is recorded until then, by the cluster itself: what its leader
        acknowledged was there until then.
        """
        leads = [c for c in self.changes.get(place, ()) if c.kind == "leader" and c.may_precede(until_ns)]
        return [(c.epoch, c.within_ns) for c in leads] == [(0, 0)]

    def leader_changes(self) -> Counter[str]:
        """By topic, how often a partition got another leader than before."""
        return Counter(
            place.topic
            for place, changes in self.changes.items()
            for c in changes
            if c.kind == "leader" and c.led_before is not None and c.leader not in (None, -1, c.led_before)
        )


def build(
    events: Iterable[Mapping[str, Any]],
    faults: Sequence[FaultRow],
    logged: Mapping[TopicPartition, Mapping[int, tuple[int, int]]],
    ends: Mapping[TopicPartition, int],
    is_down: IsDown = lambda broker, at_ns, cluster: False,
) -> LeaderHistory:
    """Builds the timeline. `logged`: lowest and highest stored offset of each epoch; `ends`: the offset after
    each log's last; `is_down`: whether a broker of a cluster is known not to serve (serving.py).
    """
    by_place: dict[TopicPartition, list[Mapping[str, Any]]] = defaultdict(list)
    for row in events:
        if row["kind"] in ("leader", "isr") and row["topic"] is not None and row["partition"] is not None:
            by_place[TopicPartition(row["topic"], row["partition"])].append(row)
    changes, epochs = {}, {}
    for place in sorted({*by_place, *logged}):
        gone = recreated_ns(faults, place)
        if rows := by_place.get(place):
            mine = [fault for fault in faults if may_concern(fault, place)]
            changes[place] = _changes(rows, mine, gone, is_down)
        # The log that was read is the new topic's, whose epochs begin at 0 again.
        own = [one for one in changes.get(place, ()) if not gone or one.at_ns // MS >= gone[-1] // MS]
        epochs[place] = _epochs(own, logged.get(place, {}), ends.get(place, 0))
    return LeaderHistory(
        changes, {place: known for place, known in epochs.items() if known}, power_losses(faults)
    )


def may_concern(fault: FaultRow, place: TopicPartition) -> bool:
    """Whether the fault may have hit brokers of the partition's cluster; a step that moves one partition hits
    them only there.
    """
    (cluster, topic), moved = cluster_and_topic(place.topic), fault.hit.place
    if fault.fault in MOVES and moved is not None:
        return (cluster_and_topic(moved.topic)[1], moved.partition) == (topic, place.partition)
    return None in (fault.cluster, cluster) or fault.cluster == cluster


def recreated_ns(faults: Iterable[FaultRow], place: TopicPartition) -> list[int]:
    """When a step had deleted the partition's topic."""
    topic = cluster_and_topic(place.topic)[1]
    return sorted(
        fault.effective_ns
        for fault in faults
        if fault.fault in DELETE_TOPICS and fault.proven and fault.effective_ns is not None
        if cluster_and_topic(fault.hit.whole_topic or "")[1] == topic and may_concern(fault, place)
    )


def power_losses(faults: Iterable[FaultRow]) -> list[PowerCut]:
    """The proven faults that take data from disks, one row per broker that they hit."""
    return [
        PowerCut(broker, fault.effective_ns, fault.until_ns, fault.fault == DISK_LOSS)
        for fault in faults
        if fault.fault in {*UNSYNCED_DATA_FAULTS, DISK_LOSS}
        and fault.proven
        and fault.effective_ns is not None
        for broker in fault.brokers
    ]


def _changes(
    rows: Iterable[Mapping[str, Any]],
    faults: Sequence[FaultRow],
    recreated: Sequence[int],
    is_down: IsDown,
) -> list[Change]:
    """`recreated`: when the topic was deleted; the new one has no leader before its first."""
    changes: list[Change] = []
    lives = 0
    led_before: int | None = None
    elected_before: int | None = None
    eligible: set[int] | None = None
    lost_ns: int | None = None  # since when there is no leader
    ordered = in_order(rows)
    led = [row for row in ordered if row["kind"] == "leader"]
    # A leader that another one (or none) followed in the same ms led nothing; nor did one that was not there.
    brief = {
        id(one)
        for one, later in pairwise(led)
        if one["at_ns"] // MS == later["at_ns"] // MS or _was_down(one, later["at_ns"], is_down)
    }
    for row in ordered:
        if (life := sum(at // MS <= row["at_ns"] // MS for at in recreated)) > lives:
            lives, led_before, elected_before, eligible, lost_ns = life, None, None, None, None
        isr = None if row["isr"] is None else tuple(row["isr"])
        leader = row["leader"]
        change = Change(
            row["at_ns"],
            row["kind"],
            leader,
            row["leader_epoch"],
            isr,
            led_before,
            within_ns=row["within_ns"] or 0,
            elr=tuple(row["elr"] or ()),
            led_nothing=id(row) in brief,
            elected_before=elected_before,
        )
        if change.kind == "leader":
            # If polled, who was eligible just before is unknown: that ISR may be from an earlier poll.
            known = eligible if row["within_ns"] is None else None
            if leader is not None and leader >= 0:
                # The leader of an unclean election is alone in the ISR. A new replica comes into it as it is
                # elected, at the end of its move; the only one is then alone as well.
                outside = None if known is None else leader not in known and isr in (None, (leader,))
                unsure = bool(outside) and any(_moves_replicas(one, change.at_ns) for one in faults)
                change = replace(change, unclean=None if unsure else outside)
            change = replace(change, fault=_fault_of(change, faults))
            if leader is not None and leader >= 0:
                gone_ns = None if lost_ns is None else change.at_ns - lost_ns
                change, lost_ns = replace(change, leaderless_ns=gone_ns), None
            elif leader is not None:
                lost_ns = change.at_ns if lost_ns is None else lost_ns
            if leader is not None and leader >= 0:
                # The first leader of all may have been down: what is elected next is elected after it.
                led_before = led_before if change.led_nothing and led_before is not None else leader
                elected_before = leader
        if isr is not None:
            # Who may lead next without a loss: the ISR and the eligible leader replicas.
            eligible = {*isr, *(row["elr"] or ())}
        changes.append(change)
    return changes


def _moves_replicas(fault: FaultRow, at_ns: int) -> bool:
    """Whether a step may have been moving replicas then."""
    return fault.fault in MOVES_REPLICAS and fault.injected_ns <= at_ns <= fault.may_end_ns


def _was_down(row: Mapping[str, Any], until_ns: int, is_down: IsDown) -> bool:
    """Whether a leader was not there from its election until the next one."""
    leader, at_ns = row["leader"], row["at_ns"] // MS * MS + MS - 1
    if leader is None or leader < 0 or row["within_ns"] is not None or until_ns <= at_ns:
        return False
    return all(is_down(leader, at, row["cluster"]) for at in (row["at_ns"], at_ns, until_ns - 1))


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """By time. Of several ISRs of one ms that only shrink, as of two brokers that are fenced at once, the
    smaller ones come later, and of the same ISR those with fewer eligible leader replicas; one that is as
    before follows another, or it was no change.
    """
    ordered: list[Mapping[str, Any]] = []
    before: set[int] = set()
    by_moment = groupby(sorted(rows, key=_event_order), key=lambda row: _event_order(row)[:4])
    for _, same in by_moment:
        moment = list(same)
        if all(row["isr"] is not None and set(row["isr"]) <= before for row in moment):
            moment.sort(key=lambda row: (set(row["isr"]) == before, -len(row["isr"]), -len(row["elr"] or ())))
        ordered += moment
        before = next((set(row["isr"]) for row in reversed(moment) if row["isr"] is not None), before)
    return ordered


def _event_order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort key: within one ms by epoch, leader events first; the rest makes the order deterministic."""
    epoch, leader = row["leader_epoch"], row["leader"]
    known = (epoch is None, epoch or 0, row["kind"] != "leader", leader is None, leader or 0)
    return (row["at_ns"], *known, tuple(row["isr"] or ()), tuple(row["elr"] or ()))


def _fault_of(change: Change, faults: Sequence[FaultRow]) -> str | None:
    """The latest fault that hit the previous leader and took effect before; of a planned change none that was
    over by then, unless it is a step that moves leaders or replicas.
    """
    hit = [
        fault
        for fault in faults
        if fault.effective_ns is not None
        and fault.effective_ns // MS <= change.at_ns // MS
        and change.led_before in fault.brokers
        and fault.fault != NOOP
        and (fault.fault in MOVES or not (change.planned and _over(fault, change.at_ns)))
    ]
    return max(hit, key=lambda fault: fault.effective_ns or 0).id if hit else None


def _over(fault: FaultRow, at_ns: int) -> bool:
    """Whether it was healed by then, and the brokers that it hit are what they were before."""
    return fault.fault not in ENDS_PROCESS and fault.healed_ns is not None and fault.healed_ns < at_ns


def _epochs(changes: Sequence[Change], logged: Mapping[int, tuple[int, int]], end: int) -> list[Epoch]:
    began: dict[int, Change] = {}
    for change in changes:
        if change.kind == "leader" and change.epoch is not None:
            began.setdefault(change.epoch, change)
    numbers = sorted({*began, *logged})
    starts: dict[int, int] = {}
    leaders: dict[int, int | None] = {}
    start, next_leader = end, None
    for number in reversed(numbers):
        start = min(start, logged[number][0]) if number in logged else start
        starts[number] = start
        next_leader = leaders[number] = _leader(began.get(number), next_leader)
    known: list[Epoch] = []
    led, earliest = None, 0
    for number in numbers:
        change_, leader = began.get(number), leaders[number]
        changed = None if led is None or leader is None else led != leader
        led = _leader(change_, led)
        epoch = Epoch(
            number,
            starts[number],
            earliest=min(starts[number], earliest),
            logged=number in logged,
            leader=leader,
            led_last=led,
            changed=changed,
        )
        if change_ is not None:
            epoch = replace(
                epoch,
                at_ns=change_.at_ns,
                unclean=change_.unclean,
                fault=change_.fault,
                within_ns=change_.within_ns,
            )
        known.append(epoch)
        if number in logged:
            earliest = max(earliest, logged[number][1] + 1)
    return known


def _leader(change: Change | None, fallback: int | None) -> int | None:
    """The leader of an epoch; `fallback` if it had none; None if no event tells."""
    if change is None or change.leader is None:
        return None
    return change.leader if change.leader >= 0 else fallback


def polled_ns(events: Iterable[Mapping[str, Any]]) -> int | None:
    """How much earlier than recorded a change may be; None if the cluster itself recorded it."""
    changes = (row for row in events if row["kind"] in ("leader", "isr"))
    return max((row["within_ns"] for row in changes if row["within_ns"] is not None), default=None)


def served_ns(fault: FaultRow, cluster_events: Sequence[Mapping[str, Any]]) -> int | None:
    """When its brokers served again: a process that ended has to be unfenced, if such events are recorded."""
    if fault.healed_ns is None or fault.fault not in ENDS_PROCESS or not fault.brokers:
        return fault.healed_ns
    every = [row for row in cluster_events if row["kind"] == "unfenced" and row["broker"] in fault.brokers]
    back = [row["at_ns"] for row in every if row["at_ns"] > (fault.effective_ns or 0)]
    return min(back, default=None) if every else fault.healed_ns
