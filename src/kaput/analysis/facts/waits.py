"""What a silence waited for: the conditions of an acknowledgement (or of a delivery), followed through the
record of leaders, in-sync replicas, brokers and faults. Defined in docs/GLOSSARY.md (ended_by).

Built on the driver. Not here: finding silences (questions/silences.py), and who serves when (serving.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import groupby, takewhile
from typing import Any, NamedTuple

from kaput.analysis.facts.assignments import Owners
from kaput.analysis.facts.leader_history import Change, LeaderHistory, state_after
from kaput.analysis.facts.open_transactions import Hold
from kaput.analysis.facts.serving import Hindrance, How, MinIsr, Serving, sign_in
from kaput.core import FOREVER_NS, MS, SECOND, TopicPartition, cluster_and_topic
from kaput.evidence.findings_claims import EndedBy, Wait, only_flaps
from kaput.scenario.targets import recorded_target
from kaput.scenario.vocabulary import CLIENT_USER

SHORTEST_NS = SECOND  # of a silence
_SAMPLED_NS = 2 * SECOND  # offsets are sampled every second
_ALL_MET: tuple[EndedBy, ...] = ("client", "unknown")  # of the waits: every condition is met


class Stage(IntEnum):
    """How far a partition is from an acknowledgement: each condition supposes those before it."""

    NO_CANDIDATE = 0  # no leader, and no replica that could become one is up, or too few controllers
    NO_LEADER = 1  # no leader that serves, but a replica could become one
    TOO_FEW_UP = 2  # the ISR is too small, and too few replicas are up
    ISR = 3  # a member of the ISR does not fetch, or the ISR has yet to grow
    OLD_LEADER = 4  # a leader serves; clients still ask one that cannot know of it, or that does not answer
    DENIED = 5  # clients may not use the topic, or it is gone
    UNCOPIED = 6  # of a group that reads copies: a fault holds up the mirror of each
    NO_MEMBER = 7  # of a group: the partition has no owner, and faults hold up every member
    UNOWNED = 8  # of a group: the partition has no owner
    CLIENT_HINDERED = 9  # a fault holds up the client itself
    REREADING = 10  # a group is delivered again what it had been delivered
    OPEN = 11  # of a group that reads what is committed: a transaction is open before what it is delivered
    READY = 12


class WaitState(NamedTuple):
    """The stage at one time, and the hindrances behind it."""

    stage: Stage
    behind: tuple[Hindrance, ...] = ()


@dataclass(frozen=True)
class Story:
    """What a silence waited for. `why`: why it is not known, where `decidable` is false."""

    waits: list[Wait] = field(default_factory=list)
    ended_by: EndedBy = "unknown"
    decidable: bool = False
    why: str = ""


@dataclass(frozen=True)
class Terms:
    """What acknowledgements of a partition require: with acks=all, also its in-sync replicas, at least
    `min_isr` of them. What readers see requires these always (KAFKA-15583). `any_replica`: unclean elections
    are on.
    """

    acks_all: bool
    min_isr: MinIsr = field(default_factory=MinIsr)
    any_replica: bool = False


@dataclass(frozen=True)
class Waiter:
    """Who waited: the targets of faults that would hold up all of them (`producer 1`); of a group its name,
    and if it reads copies only, the mirrors through which each of them comes.
    `given_up`: when messages failed or were given up; `rereads`: when a group was delivered what it had had
    before, for a second or more. Of a group that reads what is committed, `holds`: which
    transactions held back what ended the silence; `stalls`: when the last stable offset stood still. `users`:
    as whom the producers, or the group's members, sign in.
    """

    producers: frozenset[str] = frozenset()
    group: str | None = None
    given_up: Sequence[tuple[int, int]] = ()
    stalls: Sequence[tuple[int, int]] = ()
    holds: Sequence[Hold] = ()
    rereads: Sequence[tuple[int, int]] = ()
    mirrors: Sequence[frozenset[str]] = ()
    users: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """What the small tables tell about leaders, ISRs, brokers and owners of partitions. `fenced`: by cluster
    and broker, when it was fenced; `acked`: by partition and epoch, the first acknowledgement.
    """

    history: LeaderHistory
    serving: Serving
    owners: Owners = field(default_factory=dict)
    fenced: Mapping[tuple[str | None, int], Sequence[int]] = field(default_factory=dict)
    acked: Mapping[TopicPartition, Mapping[int | None, int]] = field(default_factory=dict)

    def asked(self, place: TopicPartition, at_ns: int) -> int | None:
        """The leader that clients were asking: the last that had acknowledged anything; else who led then."""
        changes = self.history.changes.get(place, ())
        led = [one for one in changes if one.at_ns <= at_ns and one.leader is not None and one.leader >= 0]
        acked = self.acked.get(place, {})
        return next(
            (one.leader for one in reversed(led) if acked.get(one.epoch, FOREVER_NS) <= at_ns),
            led[-1].leader if led else None,
        )

    def story(self, place: TopicPartition, from_ns: int, to_ns: int, terms: Terms, waiter: Waiter) -> Story:
        """What a partition waited for between two times; the second is that of the first answer. When between
        its request and its proof a step lowered the minimum is not known: it counts from the request on, but
        if that leaves a second or more in which nothing was unmet at the end, from the proof on.
        """
        story = self._story(place, from_ns, to_ns, terms, waiter)
        all_met = [*takewhile(lambda one: one.condition in _ALL_MET, reversed(story.waits))]
        open_ns = all_met[-1].from_ns if all_met else to_ns if story.waits else from_ns
        late = terms.min_isr.lowered_late(to_ns)
        if to_ns - open_ns < SHORTEST_NS or late == terms.min_isr:
            return story
        return self._story(place, from_ns, to_ns, replace(terms, min_isr=late), waiter)

    def _story(self, place: TopicPartition, from_ns: int, to_ns: int, terms: Terms, waiter: Waiter) -> Story:
        if place not in self.history.changes and waiter.group is None:
            return Story(why=f"no leader or ISR of {place} is recorded")
        slow: dict[tuple[str, Stage], int] = {}
        while True:
            walk = _Walk(self, place, from_ns, to_ns, terms, waiter, slow)
            blamed = walk.unmet_at_the_end()
            if not blamed:
                return walk.told()
            if walk.fetched_before():
                return Story(why="a delivery came while no leader served: it had been fetched before")
            no_leader = ("", Stage.NO_LEADER) in blamed and waiter.group is None
            if no_leader or blamed.keys() <= slow.keys():
                return Story(why="by the record, nobody could have acknowledged at its end")
            # What came while a condition was unmet shows that it is none: this fault only slowed things down.
            slow |= blamed


def users_of(users: Mapping[str, str], owners: Collection[str]) -> set[str]:
    """As whom these members sign in (member-2.2 as member-2); without any, all of those who wait."""
    mine = {users.get(owner.partition(".")[0], CLIENT_USER) for owner in owners}
    return mine or {*users.values()} or {CLIENT_USER}


_Span = tuple[int, int, WaitState]


class _Met(NamedTuple):
    """What met a condition; its fields are those of Wait."""

    condition: EndedBy
    record: str = ""
    faults: Sequence[str] = ()
    fenced: int | None = None


def _is_own(span: _Span) -> bool:
    """Whether what is unmet is a condition of the client itself."""
    return Stage.DENIED <= span[2].stage < Stage.READY


def _hides(span: _Span) -> bool:
    """Whether a leader or an ISR is missing."""
    return span[2].stage < Stage.DENIED


@dataclass
class _Walk:
    """One silence of a partition. `slow`: since when a fault ("": none) prevented nothing, and the stage."""

    record: Record
    place: TopicPartition
    from_ns: int
    to_ns: int
    terms: Terms
    waiter: Waiter
    slow: Mapping[tuple[str, Stage], int]

    def __post_init__(self) -> None:
        to_ns = self.to_ns
        self.cluster = cluster_and_topic(self.place.topic)[0]
        self.changes = [
            (min(one.at_ns, to_ns) if one.may_precede(to_ns) else one.at_ns, one)
            for one in self.record.history.changes.get(self.place, ())
        ]
        self.ever_in_isr = {broker for _, one in self.changes for broker in one.isr or ()}
        self.spans = list(self._spans())

    def _spans(self) -> Iterator[tuple[int, int, WaitState]]:
        """(from, to, state) of each stretch in which nothing changes."""
        moments = {self.from_ns, self.to_ns}
        moments |= {at for at, _ in self.changes if self.from_ns < at < self.to_ns}
        moments |= self.record.serving.moments(self.from_ns, self.to_ns)
        moments |= {at for at in self.terms.min_isr.moments() if self.from_ns < at < self.to_ns}
        if self.waiter.group is not None:
            owned = self.record.owners.get((self.waiter.group, self.place), ())
            moments |= {at for at, _ in owned if self.from_ns < at < self.to_ns}
        spans = [*(one[:2] for one in self.waiter.holds), *self.waiter.rereads]
        moments |= {at for span in spans for at in span if self.from_ns < at < self.to_ns}
        states = ((begin, self.state(begin)) for begin in sorted(moments)[:-1])
        begins = [next(same) for _, same in groupby(states, key=lambda one: one[1])]
        ends = [*(begin for begin, _ in begins[1:]), self.to_ns]
        yield from ((begin, end, state) for (begin, state), end in zip(begins, ends, strict=False))

    def state(self, at_ns: int) -> WaitState:
        """The first condition that is not met at that time. Without a majority of the controllers, no replica
        can be elected.
        """
        found = self._first_unmet(at_ns)
        if found.stage == Stage.NO_LEADER:
            for one in self.record.serving.without_quorum.get(self.cluster, ()):
                slow = any(self._only_slow(Stage.NO_CANDIDATE, at_ns, each.name) for each in one.behind)
                if one.from_ns <= at_ns < one.to_ns and not slow:
                    return WaitState(Stage.NO_CANDIDATE, one.behind)
        return found

    def _first_unmet(self, at_ns: int) -> WaitState:
        leader, _, in_sync, elr, _ = state_after(one for at, one in self.changes if at <= at_ns)
        isr = in_sync or ()
        if leader is None:
            return self._of_client(at_ns)  # nothing is recorded of this partition's leader
        if leader < 0:
            eligible = {*isr, *elr} or self.ever_in_isr
            held = self._all_held(
                eligible, at_ns, lambda one: one.how in ("ended", "frozen") or one.controllers
            )
            stage = Stage.NO_LEADER if held is None else Stage.NO_CANDIDATE
            return self._of_client(at_ns) if self._only_slow(stage, at_ns) else WaitState(stage, held or ())
        dead = [one for one in self._hindering(leader, at_ns, Stage.NO_LEADER) if one.stops_serving]
        if dead:
            gone = self._all_held({leader, *isr, *elr}, at_ns, lambda one: one.how == "ended")
            return WaitState(Stage.NO_CANDIDATE, gone) if gone else WaitState(Stage.NO_LEADER, tuple(dead))
        if self._elected_again(leader, at_ns) and not self._only_slow(Stage.NO_LEADER, at_ns):
            return WaitState(Stage.NO_LEADER)
        if self.terms.acks_all or self.waiter.group is not None:
            isr_state = self._of_isr(leader, isr, at_ns)
            if isr_state is not None:
                return isr_state
        old = self._old_leader(leader, at_ns)
        return WaitState(Stage.OLD_LEADER, old) if old else self._of_client(at_ns)

    def _elected_again(self, leader: int, at_ns: int) -> bool:
        """Whether the leader's process ended after its election and is back, and an election still follows: a
        broker that starts leads only once it is elected again.
        """
        since = [
            at for at, one in self.changes if at <= at_ns and one.leader == leader and one.kind == "leader"
        ]
        restarted = any(
            one.how == "ended" and max(since, default=0) <= one.from_ns and one.to_ns <= at_ns
            for one in self.record.serving.hindrances.get(leader, ())
            if one.may_concern(self.cluster)
        )
        return restarted and any(
            at_ns < at <= self.to_ns and one.kind == "leader" and (one.leader or 0) >= 0
            for at, one in self.changes
        )

    def _hindering(self, broker: int, at_ns: int, stage: Stage) -> list[Hindrance]:
        slow = {name for name, at in self.slow if at == stage and self._only_slow(stage, at_ns, name)}
        return self.record.serving.of(broker, at_ns, self.cluster, slow)

    def _all_held(
        self, eligible: Collection[int], at_ns: int, holds: Callable[[Hindrance], bool]
    ) -> tuple[Hindrance, ...] | None:
        """What holds up all replicas that may be elected; None if one is free."""
        behind: list[Hindrance] = []
        for broker in sorted(self.ever_in_isr if self.terms.any_replica else eligible):
            mine = [one for one in self._hindering(broker, at_ns, Stage.NO_CANDIDATE) if holds(one)]
            if not mine:
                return None
            behind += mine
        return tuple(behind)

    def _of_isr(self, leader: int, isr: Sequence[int], at_ns: int) -> WaitState | None:
        """The state if the ISR holds up acknowledgements, else None. One that is too small counts first: a
        member that fetches again, or leaves it, meets nothing.
        """
        too_small = self._too_small(leader, isr, at_ns)
        if too_small is not None:
            return too_small
        apart: list[Hindrance] = []
        for member in isr:
            if member != leader:
                between = self._between(leader, member, at_ns, Stage.ISR)
                apart += between or self._still_cut(leader, member, at_ns)
        return WaitState(Stage.ISR, tuple(apart)) if apart else None

    def _too_small(self, leader: int, isr: Sequence[int], at_ns: int) -> WaitState | None:
        lowest, raised = self.terms.min_isr.at(leader, at_ns)
        if not isr or len(isr) >= lowest:
            return None
        if raised is not None and len(isr) >= self.terms.min_isr.configured:
            slow = self._only_slow(Stage.TOO_FEW_UP, at_ns, raised.name)
            return None if slow else WaitState(Stage.TOO_FEW_UP, (raised,))
        if self._eased(leader, at_ns):
            return WaitState(Stage.ISR)  # a step lowers the minimum, whatever is up
        others = self.ever_in_isr - {leader}
        away = {broker: self._between(leader, broker, at_ns, Stage.TOO_FEW_UP) for broker in others}
        if 1 + sum(not held for held in away.values()) < lowest:
            return WaitState(Stage.TOO_FEW_UP, tuple(one for held in away.values() for one in held))
        return None if self._only_slow(Stage.ISR, at_ns) else WaitState(Stage.ISR)

    def _eased(self, leader: int, at_ns: int) -> bool:
        """Whether an ISR that is too small suffices once a step has lowered the minimum, and no sooner."""
        minimum = self.terms.min_isr
        lowered = minimum.lowered(leader, at_ns, self.to_ns)
        if not lowered:
            return False
        sizes = {at: len(one.isr) for at, one in self.changes if one.isr is not None}
        for at in sorted(at for at in {*sizes, *minimum.moments()} if at_ns < at <= self.to_ns):
            size = next(size for since, size in reversed(sizes.items()) if since <= at)
            if size >= minimum.at(leader, at)[0]:
                return at in lowered
        return False

    def _between(self, leader: int, broker: int, at_ns: int, stage: Stage) -> list[Hindrance]:
        """What keeps a replica from fetching from the leader; one whose process has started is up. It may
        fetch before it is unfenced: if the silence ended sooner, it did, unless it leaves the ISR first.
        """
        both = [*self._hindering(leader, at_ns, stage), *self._hindering(broker, at_ns, stage)]
        apart = [one for one in both if one.separates(leader, broker)]
        if stage == Stage.TOO_FEW_UP:
            return [one for one in apart if one.how != "starting"]
        leaves = self._leaves_next(broker, at_ns)
        return [one for one in apart if one.how != "starting" or leaves or one.to_ns <= self.to_ns]

    def _leaves_next(self, member: int, at_ns: int) -> bool:
        """Whether the next ISR within the silence is without it: it had not fetched again."""
        later = (one.isr for at, one in self.changes if at_ns < at <= self.to_ns and one.isr is not None)
        return member not in next(later, (member,))

    def _still_cut(self, leader: int, member: int, at_ns: int) -> list[Hindrance]:
        """The healed cuts between a leader and a member of its ISR that leaves it next, within the silence:
        connections of TCP take a while to be there again.
        """
        if not self._leaves_next(member, at_ns):
            return []
        both = [one for broker in (leader, member) for one in self.record.serving.hindrances.get(broker, ())]
        return [
            one
            for one in both
            if one.how == "cut"
            and self.from_ns < one.to_ns <= at_ns
            and one.may_concern(self.cluster)
            and one.separates(leader, member)
            and not self._only_slow(Stage.ISR, at_ns, one.name)
        ]

    def _old_leader(self, leader: int, at_ns: int) -> tuple[Hindrance, ...]:
        """What keeps the leader before from telling clients of its successor, while they wait for it."""
        asked = self.record.asked(self.place, self.from_ns)
        if asked is None or asked == leader:
            return ()
        mine = self._hindering(asked, at_ns, Stage.OLD_LEADER)
        if any(one.how == "ended" or (one.clients and one.rejects) for one in mine):
            return ()  # clients notice as soon as they send; one that only waits is not helped by the heal
        return tuple(one for one in mine if one.how in ("frozen", "disk") or one.controllers or one.clients)

    def _of_client(self, at_ns: int) -> WaitState:
        denied = self._denied(at_ns)
        if denied is not None:
            return denied
        if self.waiter.group is not None:
            copied = _if_all([self._on_the_way(ways, at_ns) for ways in self.waiter.mirrors], Stage.UNCOPIED)
            return copied or self._of_group(self.waiter.group, at_ns) or self._of_records(at_ns)
        held = [self._held(target, at_ns) for target in sorted(self.waiter.producers)]
        return _if_all(held, Stage.CLIENT_HINDERED) or WaitState(Stage.READY)

    def _denied(self, at_ns: int) -> WaitState | None:
        """Whether the topic is not there, or no user of those who waited may use it."""
        group, users = self.waiter.group, self.waiter.users
        owners = () if group is None else self.record.owners.get((group, self.place), ())
        mine = next((who for at, who in reversed(owners) if at <= at_ns), frozenset())
        what = f"{'Write' if group is None else 'Read'} {self.place.topic}"
        held: dict[str, list[Hindrance]] = {}
        for user in sorted(users_of(users, mine)):
            needs = (what, f"{what} as {user}", sign_in(user, self.cluster))
            held[user] = [one for need in needs for one in self._held(need, at_ns, ["slow"], Stage.DENIED)]
        if not all(held.values()):
            return None
        return WaitState(Stage.DENIED, tuple(dict.fromkeys(one for each in held.values() for one in each)))

    def _on_the_way(self, mirrors: Collection[str], at_ns: int) -> list[Hindrance]:
        """What holds up one of the mirrors through which a copy comes."""
        targets = [f"mirror {name}" for name in sorted(mirrors)]
        how: tuple[How, ...] = ("ended", "frozen", "cut")
        return [one for target in targets for one in self._held(target, at_ns, how, Stage.UNCOPIED)]

    def _of_records(self, at_ns: int) -> WaitState:
        """Of a group to which nothing else is missing: whether there is anything new that it may be given."""
        if any(from_ns <= at_ns < to_ns for from_ns, to_ns in self.waiter.rereads):
            return WaitState(Stage.REREADING)
        held = any(one.from_ns <= at_ns < one.to_ns for one in self.waiter.holds)
        return WaitState(Stage.OPEN if held else Stage.READY)

    def _of_group(self, group: str, at_ns: int) -> WaitState | None:
        owners = self.record.owners.get((group, self.place))
        if owners is None:
            return None
        mine = next((who for at, who in reversed(owners) if at <= at_ns), frozenset())
        if not mine:
            gone = [self._holding_up(group, one, at_ns, Stage.NO_MEMBER) for one in self._members(group)]
            unowned = None if self._only_slow(Stage.UNOWNED, at_ns) else WaitState(Stage.UNOWNED)
            return _if_all(gone, Stage.NO_MEMBER) or unowned
        held = [self._holding_up(group, member, at_ns) for member in sorted(mine)]
        return _if_all(held, Stage.CLIENT_HINDERED)

    def _members(self, group: str) -> set[str]:
        """All that ever owned a partition."""
        histories = [history for (of, _), history in self.record.owners.items() if of == group]
        return {member for history in histories for _, members in history for member in members}

    def _holding_up(
        self, group: str, member: str, at_ns: int, stage: Stage = Stage.CLIENT_HINDERED
    ) -> list[Hindrance]:
        targets = [
            one for one in self.record.serving.clients if recorded_target(one).includes_member(group, member)
        ]
        return [one for target in sorted(targets) for one in self._held(target, at_ns, stage=stage)]

    def _held(
        self,
        target: str,
        at_ns: int,
        how: Collection[How] = ("ended", "frozen"),
        stage: Stage = Stage.CLIENT_HINDERED,
    ) -> list[Hindrance]:
        return [
            one
            for one in self.record.serving.clients.get(target, ())
            if one.how in how
            and one.from_ns <= at_ns < one.to_ns
            and not self._only_slow(stage, at_ns, one.name)
        ]

    def unmet_at_the_end(self) -> dict[tuple[str, Stage], int]:
        """The faults that would still have prevented what ended the silence, with the stage (an empty name if
        it was no fault), and since when.
        """
        last = self.spans[-1][2]
        if last.stage == Stage.READY or self._met_at_the_end(last):
            return {}
        since = self.from_ns
        for begin, _, state in reversed(self.spans):
            if state.stage > last.stage:
                break
            if state.stage == last.stage:  # an earlier stage only hides it
                since = begin
        return {(one.name, last.stage): since for one in last.behind} or {("", last.stage): since}

    def fetched_before(self) -> bool:
        """Whether a group was delivered what ended it while no process led the partition."""
        last = self.spans[-1][2]
        gone = all(one.how in ("ended", "frozen") for one in last.behind)
        return self.waiter.group is not None and last.stage <= Stage.NO_LEADER and gone

    def _only_slow(self, stage: Stage, at_ns: int, name: str = "") -> bool:
        """Whether a fault (empty: no fault) is known to prevent nothing at that stage and time."""
        return at_ns >= self.slow.get((name, stage), FOREVER_NS)

    def _met_at_the_end(self, last: WaitState) -> bool:
        """Whether a record of the same millisecond, or a heal that was being confirmed, met the condition.
        That a transaction was ended, and that a group went on, the delivery shows.
        """
        if last.stage in (Stage.REREADING, Stage.OPEN):
            return True
        if any(self.to_ns <= at and one.may_precede(self.to_ns) for at, one in self.changes):
            return True
        leader = state_after(one for at, one in self.changes if at < self.to_ns)[0]
        if last == WaitState(Stage.ISR) and self._eased(leader or 0, self.to_ns - 1):
            return True  # lowered by the end
        return bool(last.behind) and all(
            one.may_end_ns <= self.to_ns or one.may_end_ns // MS == self.to_ns // MS for one in last.behind
        )

    def told(self) -> Story:
        """The waits, in order, and what ended the silence."""
        waits = _merged(self._waits())
        met = [wait for wait in waits if wait.condition not in ("client", "unknown")]
        if met:
            return Story(waits, met[-1].condition, True)
        if any(first <= self.to_ns and last >= self.from_ns for first, last in self.waiter.given_up):
            return Story(waits, "client", True)
        return Story([], why=self._why())

    def _why(self) -> str:
        group, known = self.waiter.group, self.place in self.record.history.changes
        came = "an acknowledgement" if group is None else "a delivery"
        if stalled := self._stalled(self.from_ns, self.to_ns):
            return stalled
        lasting = sorted({name.partition(" ")[0] for name, _ in self.slow} - {""})
        if lasting:
            return f"{came} came while {' and '.join(lasting)} lasted, and nothing else was missing"
        if self.slow:
            return f"by the record, a condition of it was still unmet when {came} came"
        there = ["a serving leader"] * known
        there += ["its in-sync replicas"] * (known and (self.terms.acks_all or group is not None))
        there += ["an owner in the group"] * ((group, self.place) in self.record.owners)
        if not there:
            return f"neither a leader nor an owner of {self.place} is recorded"
        *most, last = there
        had = " and ".join([*([", ".join(most)] if most else []), last])
        return f"by the record, {self.place} had {had} the whole time"

    def _stalled(self, from_ns: int, to_ns: int) -> str:
        """A sentence if the last stable offset stood still meanwhile, else nothing."""
        if not any(max(since, from_ns) < min(to, to_ns) for since, to in self.waiter.stalls):
            return ""
        return f"the last stable offset of {self.place} stood still; an open transaction may be the reason"

    def _waits(self) -> Iterator[Wait]:
        begin = self.from_ns
        for number, (since, until, state) in enumerate(self.spans):
            later = self.spans[number + 1][2] if number + 1 < len(self.spans) else WaitState(Stage.READY)
            if (goes_on := self._hidden(number)) is not None:
                # What it waited for then is not what hides it later: it is still unmet after that.
                met = self._met(*goes_on)
                yield Wait(condition=met.condition, from_ns=begin, to_ns=until, faults=list(met.faults))
                begin = until
                continue
            if later.stage <= state.stage and not self._longest_ready(state, since, until):
                continue  # nothing was met: the stretch belongs to the next one
            if state.stage == later.stage == Stage.READY:
                continue
            met = self._met(state, later, until)
            if met.condition == "client":
                # Before anything was unmet, or in between, the record does not tell who took the time.
                met = _Met("unknown", self._stalled(begin, until))
            yield Wait(from_ns=begin, to_ns=until, **met._asdict())
            begin = until
        if begin < self.to_ns:
            stalled = self._stalled(max(begin, self.to_ns - _SAMPLED_NS), self.to_ns)
            last: EndedBy = "unknown" if stalled else "client"
            yield Wait(condition=last, from_ns=begin, to_ns=self.to_ns, record=stalled)

    def _hidden(self, number: int) -> tuple[WaitState, WaitState, int] | None:
        """If the client's own condition (an owner, rights) is unmet before and after a leader or an ISR is
        missing: the state in which it ends, the one after that, and when.
        """
        if not _is_own(self.spans[number]):
            return None
        after = [*self.spans[number + 1 :], (self.to_ns, self.to_ns, WaitState(Stage.READY))]
        at = len(list(takewhile(_hides, after)))
        if not at:
            return None
        met: list[tuple[WaitState, WaitState, int]] = []
        while at < len(after) and _is_own(after[at]):
            (_, until, state), (_, _, later) = after[at], after[at + 1]
            if later.stage > state.stage:
                met.append((state, later, until))
            at += 1
            at += len(list(takewhile(_hides, after[at:])))  # it may be hidden again
        mine = self.spans[number][2]
        same = (one for one in met if one[0].stage == mine.stage or {*one[0].behind} & {*mine.behind})
        return next(same, met[0] if met else None)

    def _longest_ready(self, state: WaitState, since_ns: int, until_ns: int) -> bool:
        """Whether everything was met for so long that the client alone made it a silence."""
        return state.stage == Stage.READY and until_ns - since_ns >= SHORTEST_NS and until_ns < self.to_ns

    def _met(self, state: WaitState, later: WaitState, at_ns: int) -> _Met:
        """What met the condition at that time."""
        if state.stage == Stage.READY:
            return _Met("client")
        if state.stage == Stage.REREADING:
            return _Met("reread", f"{self.waiter.group} had read {self.place} again")
        if state.stage == Stage.OPEN:
            ended = [one.record for one in self.waiter.holds if one.to_ns == at_ns]
            return _Met("transaction", "; ".join(dict.fromkeys(ended)))
        events = [one for at, one in self.changes if at == at_ns]
        led = [one for one in events if one.kind == "leader" and (one.leader or 0) >= 0]
        shrunk = [one for one in events if one.isr is not None]
        created = state.stage == Stage.DENIED and any(one.to_ns == at_ns for one in state.behind)
        if led and (created or (state.stage <= Stage.ISR and state.stage != Stage.NO_CANDIDATE)):
            return self._election(led[-1], at_ns)
        raising = any(one in state.behind and one.to_ns > at_ns for one, _, _ in self.terms.min_isr.steps)
        if (state.stage == Stage.ISR or raising) and shrunk:
            return self._isr(shrunk[-1])
        if self._assigned(at_ns):
            return _Met("rebalance", f"a member of {self.waiter.group} was assigned {self.place}")
        lowered = next((step for step, _, _ in self.terms.min_isr.steps if step.from_ns == at_ns), None)
        if lowered is not None and state.stage in (Stage.TOO_FEW_UP, Stage.ISR):
            step = lowered.fault or ""
            return _Met("setting", f"{step} set min.insync.replicas of {self.place.topic}", [step])
        over = [one for one in state.behind if one.to_ns == at_ns] or [
            one for one in state.behind if one not in later.behind and one.may_end_ns <= at_ns
        ]
        faults = sorted({one.fault for one in over if one.fault is not None})
        if only_flaps(faults):
            return _Met("heal", f"the link of {', '.join(faults)} worked again", faults)
        if faults:
            return _Met("heal", f"{', '.join(faults)} {'were' if faults[1:] else 'was'} healed", faults)
        brokers = ", ".join(sorted({str(one.broker) for one in over}))
        if brokers:
            return _Met("heal", f"broker {brokers} started again")
        if led:
            return self._election(led[-1], at_ns)
        return self._isr(shrunk[-1]) if shrunk else _Met("unknown")

    def _assigned(self, at_ns: int) -> bool:
        """Whether a member of the group was assigned the partition at that time."""
        owned = self.record.owners.get((self.waiter.group or "", self.place), ())
        return any(at == at_ns and members for at, members in owned)

    def _isr(self, change: Change) -> _Met:
        isr = ", ".join(map(str, change.isr or ())) or "empty"
        return _Met("isr", f"ISR of {self.place}: {isr}{_seen(change)}")

    def _election(self, change: Change, at_ns: int) -> _Met:
        """`broker 2 led orders/0 from epoch 1 on, after broker 1 was fenced`"""
        after, fenced = "", None
        before = change.elected_before
        own_ns, its_ns = (self._fenced_ns(one, change, at_ns) for one in (change.leader, before))
        if own_ns and own_ns >= its_ns:
            after = ", after it was unfenced"
        elif its_ns:
            fenced = before
            after = f", after broker {fenced} was fenced"
        led = f"broker {change.leader} led {self.place} from epoch {change.epoch} on"
        return _Met("election", f"{led}{after}{_seen(change)}", fenced=fenced)

    def _fenced_ns(self, broker: int | None, change: Change, at_ns: int) -> int:
        """When a broker was last fenced in the silence, before the change; 0: never, or it was polled."""
        if broker is None or change.within_ns:
            return 0
        last_ns = at_ns // MS * MS + MS - 1
        fenced = self.record.fenced.get((self.cluster, broker), ())
        return max((one_ns for one_ns in fenced if self.from_ns <= one_ns <= last_ns), default=0)


def _seen(change: Change) -> str:
    """How much later a change was seen, if it was polled: which came first in one poll is not known."""
    return f", seen up to {change.within_ns // MS:,} ms later" if change.within_ns else ""


def fencings(events: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, int], list[int]]:
    """By cluster and broker, when it was fenced."""
    times: dict[tuple[str | None, int], list[int]] = defaultdict(list)
    for row in events:
        if row["kind"] == "fenced" and row["broker"] is not None:
            times[row["cluster"], row["broker"]].append(row["at_ns"])
    return times


def _if_all(held: Sequence[Sequence[Hindrance]], stage: Stage) -> WaitState | None:
    """The state if every one of several clients is held up by something."""
    return WaitState(stage, tuple(one for mine in held for one in mine)) if held and all(held) else None


def _merged(waits: Iterable[Wait]) -> list[Wait]:
    """Neighbors with the same condition as one, with all their records and how much earlier they came."""
    merged: list[Wait] = []
    for _, of_condition in groupby(waits, key=lambda one: one.condition):
        same = list(of_condition)
        last = same[-1]
        named = [one for one in same if one.record]
        before = {one.record: f" ({(last.to_ns - one.to_ns) / SECOND:,.1f} s before)" for one in named}
        records = "; ".join(one if one == last.record else one + when for one, when in before.items())
        faults = list(dict.fromkeys(fault for one in same for fault in one.faults))
        fenced = next((one.fenced for one in reversed(same) if one.fenced is not None), None)
        known = {"from_ns": same[0].from_ns, "record": records, "faults": faults, "fenced": fenced}
        merged.append(last.model_copy(update=known))
    return merged
