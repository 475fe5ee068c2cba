"""What a silence waited for: the conditions of an acknowledgement, followed through it by the record.

A condition that is not met is one of several *reasons*; each reason has stretches, and each stretch the name
of what ended it. Where the law can be read in several ways, a `Reading` says which way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product, takewhile
from typing import Any, NamedTuple

from second_opinion.effects import CLIENTS, Effect, Effects, hits_member, hits_producer
from second_opinion.raw import MOMENT, MS, SECOND, Place, Row, RunTables
from second_opinion.rereads import Rereads
from second_opinion.transactions import Transactions

Reason = tuple[str, int]  # which condition, and whom it is about


class Wait(NamedTuple):
    """A stretch of a silence by what it waited for."""

    condition: str
    begin: int
    end: int


class Reading(NamedTuple):
    """How to read what the record, or the law, leaves open.

    `shift`: how much later than recorded (cut to its ms) a cluster event was. `confirmed_late`: a heal that
    was confirmed just after the silence had worked by its end. `electable`: an election can't come before the
    process of a replica that may be elected is up, also where a leader that is down is still recorded.
    `restarted`: a leader that came back serves only under a new epoch, if one follows. `heals_began`: the
    faults that are over when their heal begins. `answers`: a deposed leader that acknowledges keeps nobody
    waiting.
    `frozen`: clients may still ask a leader that is frozen, also when another one leads. `up_fetches`: a
    replica counts as up only if it can fetch. `set_by`: a step changes a setting when it is asked to (null),
    or when all brokers show it, what lowers one by this end of the silence.
    `seen_by`: what was polled later than that, and may have happened by then, did.
    """

    shift: int = 0
    confirmed_late: bool = True
    electable: bool = True
    restarted: bool = True
    heals_began: frozenset[str] = frozenset()
    answers: bool = False
    frozen: bool = True
    up_fetches: bool = True
    set_by: int | None = None
    seen_by: int | None = None


def readings_of(tables: RunTables, effects: Effects, place: Place, end: int) -> list[Reading]:
    """Those that may differ for a silence of this partition with this end; the closest to the words first."""
    late = any(e.heal_began <= end <= e.healed for e in effects.all)
    began = {row["id"] for row in tables.rows("faults") if row.get("heal_began_ns") is not None}
    choices = (
        (0, MS - 1) if tables.events_of(place) else (0,),
        (True, False) if late else (True,),
        (True, False),
        (True, False) if effects.all else (True,),
        _heals_began(began, effects),
        (False, True) if tables.all_acks(place) is not True else (False,),
        (True, False) if any(e.fault == "pause" and e.brokers for e in effects.all) else (True,),
        (True, False) if effects.of_brokers and tables.min_isr(place) > 1 else (True,),
        (None, end) if any(e.fault == "change-config" for e in effects.all) else (None,),
        (None, end - 1) if tables.polled(place) else (None,),
    )
    return [Reading(*values) for values in product(*choices)]


def _heals_began(ids: set[str], effects: Effects) -> list[frozenset[str]]:
    """Which heals worked when they began: none, all, all but one that took a moment, or only that."""
    every = frozenset(ids)
    slow = [e.id for e in effects.all if e.id in ids and e.healed - e.heal_began >= MOMENT]
    some = [chosen for one in slow for chosen in (frozenset({one}), every - {one})]
    return list(dict.fromkeys([frozenset(), every, *(some if len(slow) < 3 else [])]))


class State(NamedTuple):
    """Of a partition by its last event; `leader`: null if none is recorded."""

    leader: int | None
    epoch: int | None
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    deposed: int | None  # who led before, if that was another


_STOPS = ("kill", "stop", "pause", "leave")
_OWNERSHIP = ("assigned", "revoked", "lost", "left", "killed")
_UNKNOWN = State(None, None, (), (), None)
_OVER = {"open": "transaction", "again": "reread"}  # what a new delivery itself shows to be over
OWN = 3  # of the stages: the conditions of the client itself


class Story:
    """Stories of silences of one partition, in one reading."""

    def __init__(
        self,
        tables: RunTables,
        effects: Effects,
        place: Place,
        reading: Reading,
        transactions: Transactions,
        rereads: Rereads,
    ) -> None:
        self.tables, self.effects, self.place, self.reading = tables, effects, place, reading
        self.all_acks = tables.all_acks(place) is True
        self.unclean = str(tables.setting(place, "unclean.leader.election.enable", "false")).lower() == "true"
        self.states = list(self._states())
        self.replicas = {broker for _, state in self.states for broker in state.isr}
        self.transactions, self.rereads = transactions, rereads
        self.senders = {s["producer"] for s in tables.sends_of.get(place, [])}
        self._owners: dict[str, list[Row]] = {}
        self._told: dict[Any, list[set[Reason]]] = {}

    def _states(self) -> Iterator[tuple[int, State]]:
        state = _UNKNOWN
        for event in self.tables.events_of(self.place):
            leader = state.leader if event["leader"] is None else event["leader"]
            epoch = state.epoch if event["leader_epoch"] is None else event["leader_epoch"]
            deposed = state.deposed
            if leader != state.leader and state.leader is not None and state.leader >= 0:
                deposed = state.leader
            isr = state.isr if event["isr"] is None else tuple(event["isr"])
            state = State(leader, epoch, isr, tuple(event.get("elr") or ()), deposed)
            at, by = event["at_ns"] + self.reading.shift, self.reading.seen_by
            early = by is not None and event["at_ns"] - (event.get("within_ns") or 0) <= by < at
            yield by if early and by is not None else at, state

    def state(self, at: int) -> State:
        """By the last event at or before this time."""
        found = _UNKNOWN
        for when, state in self.states:
            if when > at:
                break
            found = state
        return found

    # The conditions at one time.

    def serves(self, broker: int, at: int) -> bool:
        """Whether a broker can lead: it runs, has registered, clients reach it, and its disk takes what it is
        sent.
        """
        if not self.effects.runs(broker, at) or self.effects.is_booting(broker, at):
            return False
        if self.effects.cut(broker, CLIENTS, at):
            return False
        again = self.reading.restarted and self._must_be_elected_again(broker, at)
        return not self.effects.disk_hangs(broker, at) and not again

    def led(self, at: int) -> bool:
        """Whether there is a leader whose process runs, or none is recorded."""
        leader = self.state(at).leader
        return leader is None or (leader >= 0 and self.effects.runs(leader, at))

    def _must_be_elected_again(self, broker: int, at: int) -> bool:
        """It leads by the record, was down since that record, and a later epoch follows."""
        now = self.state(at)
        since = min((when for when, s in self.states if when <= at and s.epoch == now.epoch), default=None)
        if since is None or now.leader != broker:
            return False
        stops = [t for t, started in self.effects.processes.get(broker, ()) if not started]
        stops += [
            e.begin
            for e in self.effects.all
            if broker in e.brokers and e.fault in ("kill", "power-loss", "disk-loss")
        ]
        later = [s for when, s in self.states if when > at and (s.epoch or 0) > (self.state(at).epoch or 0)]
        return any(since <= t <= at for t in stops) and bool(later)

    def _leaders_reason(self, at: int) -> Reason | None:
        state = self.state(at)
        if state.leader is None:
            return None
        if state.leader >= 0 and self.serves(state.leader, at):
            return None
        if self.effects.no_quorum(self.place.cluster, at):
            return ("none up", 0)
        if state.leader >= 0 and not self.reading.electable:
            return ("leader", state.leader)
        eligible = self.replicas if self.unclean else {*state.isr, *state.elr}
        if state.leader >= 0:
            return (
                ("leader", state.leader)
                if any(self.effects.is_up(b, at) for b in eligible)
                else ("none up", 0)
            )
        reached = [b for b in eligible if not self.effects.cut_from_controllers(b, at)]
        return ("none elected", 0) if any(self.effects.runs(b, at) for b in reached) else ("none up", 0)

    def _isr_reasons(self, at: int, since: int, end: int) -> set[Reason]:
        state = self.state(at)
        if state.leader is None or state.leader < 0:
            return set()
        found: set[Reason] = set()
        for member in state.isr:
            fetches = self._can_fetch(member, state.leader, at) and not self._is_booting(member, at, end)
            if member != state.leader and (
                not fetches or self._still_cut(member, state.leader, at, since, end)
            ):
                found.add(("member", member))
        lowest = self._min_isr(state.leader, at)
        if len(state.isr) < lowest:
            up = sum(self._counts(broker, state.leader, at) for broker in self.replicas)
            raised = len(state.isr) >= self.tables.min_isr(self.place)
            waits = up < lowest and not self._eased(at, end)
            found.add(("raised", 0) if raised else ("few up", 0) if waits else ("few in sync", 0))
        return found

    def _is_booting(self, member: int, at: int, end: int) -> bool:
        """Whether a follower does not fetch yet: it may before it has registered, so then it did by the end,
        unless it left first.
        """
        if not self.effects.is_booting(member, at):
            return False
        return not self.effects.is_booting(member, end) or self._leaves_next(member, at, end)

    def _leaves_next(self, member: int, at: int, end: int) -> bool:
        """Whether the next other ISR is without it."""
        now = self.state(at).isr
        nexts = (state.isr for when, state in self.states if at < when <= end and state.isr != now)
        return member not in next(nexts, (member,))

    def _min_isr(self, leader: int, at: int) -> int:
        return self.effects.min_isr(self.place, leader, at, self.reading.set_by)

    def _eased(self, at: int, end: int) -> bool:
        """Whether a lower minimum is what first makes an ISR large enough that is too small now."""
        times = sorted({when for when, _ in self.states} | self.effects.moments() | {end})
        for when in (t for t in times if at < t <= end):
            state = self.state(when)
            if state.leader is not None and len(state.isr) >= self._min_isr(state.leader, when):
                return len(state.isr) < self._min_isr(state.leader, when - 1)
        return False

    def _counts(self, replica: int, leader: int, at: int) -> bool:
        """Whether a replica counts as up: its process is there, or it can fetch from the leader as well."""
        if self.reading.up_fetches:
            return self.serves(leader, at) if replica == leader else self._can_fetch(replica, leader, at)
        return self.effects.is_up(replica, at)

    def _can_fetch(self, member: int, leader: int, at: int) -> bool:
        cut = leader >= 0 and self.effects.cut(member, leader, at)
        return self.effects.runs(member, at) and not cut and not self.effects.disk_hangs(member, at)

    def _still_cut(self, member: int, leader: int, at: int, since: int, end: int) -> bool:
        """Whether a cut between them was healed in the silence, and its next ISR is without the member."""
        left = self._leaves_next(member, at, end)
        ends = [(e, end) for e in self.effects.all for end in (e.healed, *(up for up, _ in e.works))]
        over = [e for e, end in ends if since < end <= at]
        return left and any(self.effects.cuts(e, member, leader) for e in over)

    def stages(
        self, at: int, since: int, end: int, group: str | None, producer: int | None
    ) -> list[set[Reason]]:
        """What is unmet at this time of a silence, in the order in which it is looked at."""
        key = at, since, end, group, producer
        if key not in self._told:
            leaders = self._leaders_reason(at)
            own = self._own(at, producer) if group is None else self._group_reasons(at, since, end, group)
            acks = self.all_acks if producer is None else self.tables.has_acks_all(producer) is True
            isr = self._isr_reasons(at, since, end) if acks or group is not None else set()
            self._told[key] = [{leaders} if leaders else set(), isr, self._misled(at, since), own]
        return self._told[key]

    # A group's own conditions.

    def _group_reasons(self, at: int, since: int, end: int, group: str) -> set[Reason]:
        owner = self._owner(at, group)
        if self.effects.denies("Read", self.place, at, self.effects.members_users(group, owner)):
            return {("denied", 0)}
        if self._uncopied(at, end, group):
            return {("mirror", 0)}
        if owner == "":
            return {("no owner", 0) if self._any_member_runs(at, group) else ("no member", 0)}
        if owner is None:
            return self._old_records(at, since, end, group)
        for effect in self.effects.in_effect(at):
            if effect.fault in _STOPS and self._stops(effect, group, owner, at):
                return {("owner", 0)}
        return self._old_records(at, since, end, group)

    def _old_records(self, at: int, since: int, end: int, group: str) -> set[Reason]:
        """Whether there was nothing new for the group: it read again, or a transaction was open then, before
        what ended the silence.
        """
        again = self.rereads.within(self.place, group, since, end)
        if any(begin <= at < until for begin, until in again):
            return {("again", 0)}
        holds = self.transactions.holds(self.place, group, end)
        return {("open", 0)} if any(hold.begin <= at < hold.end for hold in holds) else set()

    def _uncopied(self, at: int, end: int, group: str) -> bool:
        """Whether a group reads copies only at the end, and a fault stops a mirror on the way of each."""
        rows = [
            e for e in self.tables.rows("group_events") if e["group"] == group and e["kind"] == "assigned"
        ]
        given = sorted(((e["at_ns"], e["place"]) for e in rows if e["place"] is not None), key=lambda e: e[0])
        before = [place for t, place in given if t < end] or [place for _, place in given[:1]]
        read = {place.cluster for place in before[-1:]}
        topics = {place.topic for _, place in given}
        copies = {c: via for c, via in self.tables.copies(self.place).items() if c.cluster in read}
        ways = [via for copy, via in copies.items() if copy.topic in topics]
        effects = list(self.effects.in_effect(at))
        held = [any(_holds_up(e, name) for e in effects for name in via) for via in ways]
        return bool(held) and all(held) and self.place.cluster not in read

    def _stops(self, effect: Effect, group: str, member: str, at: int) -> bool:
        """Whether a fault holds up a member: not if it was killed, and a new process of it has come since."""
        if not hits_member(effect, group, member):
            return False
        rows = self.tables.rows("group_events")
        mine = [e for e in rows if e["group"] == group and e["member"] == member]
        new = all(e["at_ns"] > effect.begin for e in mine)
        signs = (e["at_ns"] for e in mine if e["kind"] in ("joined", "assigned"))
        return effect.fault == "pause" or not (new and any(sign <= at for sign in signs))

    def _any_member_runs(self, at: int, group: str) -> bool:
        """Whether no fault stops one of those that ever own a partition."""
        rows = self.tables.rows("group_events")
        members = {e["member"] for e in rows if e["group"] == group and e["kind"] == "assigned"}
        faults = [e for e in self.effects.in_effect(at) if e.fault in _STOPS]
        return any(not any(self._stops(e, group, member, at) for e in faults) for member in members)

    def _owner(self, at: int, group: str) -> str | None:
        """The member that has the partition; empty: none; null: no assignment of it is recorded."""
        events = self._group_events(group)
        owner: str | None = "" if any(e["kind"] == "assigned" for e in events) else None
        for event in events:
            if event["at_ns"] > at:
                break
            kind, member = event["kind"], event["member"]
            if kind == "assigned" and event["partition"] is not None:
                owner = member
            elif kind != "assigned" and owner == member:
                owner = ""
        return owner

    def _group_events(self, group: str) -> list[Row]:
        """Those that give the partition to a member or take it away, in order."""
        if group not in self._owners:
            events = [
                e for e in self.tables.rows("group_events") if e["group"] == group and e["kind"] in _OWNERSHIP
            ]
            mine = [e for e in events if self._about(e)]
            self._owners[group] = sorted(mine, key=lambda e: (e["at_ns"], e["kind"] == "assigned"))
        return self._owners[group]

    def _about(self, event: Row) -> bool:
        if event["cluster"] != self.place.cluster:
            return False
        if event["topic"] is None:
            return True
        return event["topic"] == self.place.topic and event["partition"] in (None, self.place.partition)

    def _own(self, at: int, producer: int | None) -> set[Reason]:
        """Whether a fault stops this producer, or all that send to the partition."""
        senders = self.senders if producer is None else {producer}
        if self.effects.denies("Write", self.place, at, self.effects.producers_users(senders)):
            return {("denied", 0)}
        faults = self.effects.in_effect(at)
        stopped = [any(hits_producer(e, one) and e.fault in _STOPS for e in faults) for one in senders]
        return {("producers", 0)} if stopped and all(stopped) else set()

    def _asked(self, since: int) -> int | None:
        """The last leader that had acknowledged anything by then, by the epoch of the record; else the one
        that led then.
        """
        acked = [e for e, at in self.tables.first_acks(self.place).items() if at <= since]
        led = [s for when, s in self.states if when <= since and s.leader is not None and s.leader >= 0]
        known = [state for state in led if state.epoch in acked]
        return known[-1].leader if known else led[-1].leader if led else None

    def _misled(self, at: int, since: int) -> set[Reason]:
        """Whether clients may still ask who led at the beginning: it is frozen, reached by no controller, or
        cut off from them without an error.
        """
        old, now = self._asked(since), self.state(at).leader
        if self.reading.answers or old is None or old < 0 or old == now:
            return set()
        away = self.effects.cut(old, CLIENTS, at)
        if not self.effects.is_up(old, at) or any(one.step.get("how") == "reject" for one in away):
            return set()
        frozen = self.reading.frozen and not self.effects.runs(old, at)
        return {("misled", old)} if frozen or away or self.effects.cut_from_controllers(old, at) else set()

    def name(self, reason: Reason, at: int, group: str | None) -> str | None:
        """What ended this reason at this time; null if what came then did not meet the condition."""
        kind, who = reason
        before, after = self.state(at - 1), self.state(at)
        elected = after.epoch != before.epoch or after.leader != before.leader
        if kind in ("leader", "none elected"):
            if self._leaders_reason(at) is not None:
                return None
            return "election" if elected else "heal"
        if kind == "none up":
            # First a process is up; the election of a leader that does not serve has met nothing.
            started = any(
                t // MS == at // MS for mine in self.effects.processes.values() for t, up in mine if up
            )
            return "election" if elected and not started and self._leaders_reason(at) is None else "heal"
        if kind in ("few up", "few in sync", "raised") and not elected and before.isr == after.isr:
            less = self._min_isr(after.leader or 0, at) < self._min_isr(after.leader or 0, at - 1)
            if less:
                return "heal" if any(e.healed == at for e in self.effects.all) else "setting"
        if kind == "raised":
            return "election" if elected else "isr"
        if kind == "owner" and group is not None:
            owner = self._owner(at, group)
            if owner != self._owner(at - 1, group):
                return None if owner == "" else "rebalance"
        if kind == "member":
            out = any(who not in state.isr for when, state in self.states if when == at)
            return "election" if elected else "isr" if who not in after.isr or out else "heal"
        return {"few in sync": "isr", "no owner": "rebalance", **_OVER}.get(kind, "heal")

    def waits(
        self, begin: int, end: int, group: str | None = None, producer: int | None = None
    ) -> list[Wait]:
        """What a silence waited for, in order, without what was the client's or is not known. Where that is a
        second or more at the end, what lowers a setting did so when that was proven.
        """
        found = _Walk(self, begin, end, group, producer).waits()
        left = end - (found[-1].end if found else begin)
        if self.reading.set_by is not None or left < SECOND or not self.effects.lowers(self.place):
            return found
        late = self.reading._replace(set_by=end)
        story = Story(self.tables, self.effects, self.place, late, self.transactions, self.rereads)
        return _Walk(story, begin, end, group, producer).waits()

    def moments(self, group: str | None, begin: int, end: int) -> set[int]:
        """Every time at which any of this may change in a silence."""
        found = {when for when, _ in self.states} | self.effects.moments()
        if group is None:
            return found
        found |= {e["at_ns"] for e in self._group_events(group)}
        found |= set(self.transactions.moments(self.place, group, end))
        return found | {at for span in self.rereads.within(self.place, group, begin, end) for at in span}


def _holds_up(effect: Effect, mirror: str) -> bool:
    """Whether a fault stops a mirror, or cuts its clusters off from each other."""
    if effect.target == f"mirror {mirror}":
        return effect.fault in ("kill", "stop", "pause")
    hit, ends = effect.target.removeprefix("cluster "), set(mirror.split("->"))
    if effect.fault != "isolate" or hit not in ends:
        return False
    given = effect.step.get("from") or []
    words = {word.removeprefix("cluster ") for word in ([given] if isinstance(given, str) else given)}
    return not words or bool(words & ({*ends, f"mirror {mirror}"} - {hit}))


class _Walk:
    """Through one silence, from one change of the record to the next."""

    def __init__(self, story: Story, begin: int, end: int, group: str | None, producer: int | None) -> None:
        self.story, self.end, self.group = story, end, group
        cuts = [begin, *sorted(t for t in story.moments(group, begin, end) if begin < t < end), end]
        self.spans = list(pairwise(cuts))
        self.unmet = [[set(s) for s in story.stages(a, begin, end, group, producer)] for a, _ in self.spans]
        self.begin, self.producer = begin, producer
        leaders = self.unmet[-1][0]
        healed = any(self._healed_at_the_end(0, reason) for reason in leaders)
        # What a group was delivered while no process led had been fetched before: it waited for none of this.
        self.fetched_before = bool(
            group is not None and leaders and not healed and not story.led(self.spans[-1][0])
        )
        for stage in range(4):
            self._forget(stage)
        # Of the stages, the first that is unmet counts.
        self.reasons = [next((s for s in stages if s), set()) for stages in self.unmet]

    def _forget(self, stage: int) -> None:
        """What was unmet at the end all the same only slowed: it is no condition."""
        for reason in set(self.unmet[-1][stage]):
            if self._healed_at_the_end(stage, reason) or reason[0] in _OVER or self._set_at_the_end(reason):
                continue
            for stages in reversed(self.unmet):
                if reason not in stages[stage]:
                    break
                stages[stage].discard(reason)

    def _healed_at_the_end(self, stage: int, reason: Reason) -> bool:
        """Whether a heal that was confirmed just after the end ends this reason."""
        if not self.story.reading.confirmed_late:
            return False
        for effect in self.story.effects.all:
            if effect.heal_began <= self.end <= effect.healed:
                after = self.story.stages(effect.healed, self.begin, self.end, self.group, self.producer)
                if reason not in after[stage]:
                    return True
        return False

    def _set_at_the_end(self, reason: Reason) -> bool:
        """Whether a step that lowered the minimum by the end ends this reason."""
        state = self.story.state(self.end)
        least = self.story._min_isr(state.leader or 0, self.end)
        return reason[0] in ("few up", "few in sync") and len(state.isr) >= least

    def waits(self) -> list[Wait]:
        """Neighbours of one name are one wait."""
        found: list[Wait] = []
        if self.fetched_before:
            return found
        for (a, b), name in zip(self.spans, self._names(), strict=True):
            if name is None:
                continue
            if found and found[-1].condition == name and found[-1].end == a:
                found[-1] = found[-1]._replace(end=b)
            else:
                found.append(Wait(name, a, b))
        return found

    def _names(self) -> list[str | None]:
        """Of each span the name of the reason that was met last; null where every condition was met."""
        found: list[tuple[int, str] | None] = []
        for number, reasons in enumerate(self.reasons):
            ends = [end for reason in sorted(reasons) if (end := self._ended(number, reason)) is not None]
            found.append(max(ends, key=lambda end: end[0], default=None))
        # What was not ended by the record that met it goes to what follows it.
        for number in range(len(self.spans) - 2, -1, -1):
            one, following = found[number], found[number + 1]
            if one is not None and following is not None and one[0] > self.spans[number][1]:
                found[number] = self._hidden(number, found) or following
        return [one and one[1] for one in found]

    def _hidden(self, number: int, found: list[tuple[int, str] | None]) -> tuple[int, str] | None:
        """How an unmet condition of the client itself ends, if a missing leader or ISR only hides it for a
        while: right after that, it is still unmet. `found`: how each later span ends.
        """
        if self._stage(number) != OWN or self._stage(number + 1) in (OWN, None):
            return None
        after = list(range(number + 1, len(self.spans)))
        later = next((n for n in after if self._stage(n) in (OWN, None)), None)
        if later is None or self._stage(later) is None:
            return None
        mine = [
            n
            for n in takewhile(lambda n: self._stage(n) is not None, after)
            if self._stage(n) == OWN and self.reasons[n] & self.reasons[number]
        ]
        return found[mine[-1] if mine else later]

    def _stage(self, number: int) -> int | None:
        """The first stage that is unmet; null if none is."""
        return next((stage for stage, reasons in enumerate(self.unmet[number]) if reasons), None)

    def _ended(self, number: int, reason: Reason) -> tuple[int, str] | None:
        """When a reason was met, and what met it; null if it was not met by the end of the silence."""
        while number < len(self.spans) and reason in self.reasons[number]:
            number += 1
        if number == len(self.spans):
            by_then = "setting" if self._set_at_the_end(reason) else "heal"  # confirmed just after it
            return self.end, _OVER.get(reason[0], by_then)
        at = self.spans[number][0]
        unmet = set().union(*self.unmet[number])
        few = {("few up", 0), ("few in sync", 0), ("raised", 0)} & unmet
        # A member that leaves an ISR which is too small without it meets nothing, nor does the leader's end,
        # nor the election of one that does not serve.
        still = reason in unmet or (reason[0] in ("member", "few in sync", "raised") and bool(few))
        of_isr = reason[0] in ("member", "few up", "few in sync", "raised")
        still = still or (of_isr and bool(self.unmet[number][0]))
        # Nor does the last member that could have owned it, by its end.
        still = still or (reason[0] == "no owner" and ("no member", 0) in unmet)
        # Nor does a leader from which another member cannot fetch: the condition is that all of them can.
        still = still or (reason[0] == "member" and any(kind == "member" for kind, _ in self.reasons[number]))
        name = None if still else self.story.name(reason, at, self.group)
        if name is None:  # its record met nothing: the stretch goes on in what follows it
            same = [r for r in self.reasons[number] if _same_condition(r, reason)]
            follower = next(iter(same or sorted(self.reasons[number])), None)
            return None if follower is None else self._ended(number, follower)
        return at, name


def _same_condition(one: Reason, other: Reason) -> bool:
    conditions = (
        ("leader", "none elected", "none up"),
        ("member", "few up", "few in sync", "raised"),
        ("no member", "no owner", "owner", "denied", "again", "open"),
    )
    return any(one[0] in kinds and other[0] in kinds for kinds in conditions)
