"""Whether a fault hit what a silence was of: a partition's leader or ISR, its senders, or its owner."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise

from second_opinion.effects import Effect, hits_member
from second_opinion.failovers import ACKS_NEED, Failovers, concerns
from second_opinion.raw import SECOND, Place, Row, RunTables
from second_opinion.silences import Scope, Silence
from second_opinion.story import Wait
from second_opinion.transactions import Transactions

# Faults that prevent something for certain; all others slow things down.
_PREVENT = (
    *("kill", "power-loss", "disk-loss", "stop", "leave", "pause", "disk-stall"),
    *("isolate", "cut", "partition", "flap"),
)
_STOPS = ("kill", "power-loss", "disk-loss", "stop", "leave", "pause")


class Causes:
    """Of one run."""

    def __init__(self, tables: RunTables, failovers: Failovers) -> None:
        self.tables, self.failovers = tables, failovers
        # What a silence of a partition waited for, in each reading, but for client and brokers.
        self.waits: Callable[[Scope, Silence], list[list[Wait]]] = lambda scope, silence: []
        self.transactions = Transactions(tables)

    @cache  # noqa: B019
    def _waits(self, scope: Scope, silence: Silence) -> list[list[Wait]]:
        every = {tuple(waits) for waits in self.waits(scope, silence)}
        return [[*waits] for waits in every]

    def hit(self, effect: Effect, scope: Scope, silence: Silence) -> set[bool]:
        """Whether a fault that was in effect meanwhile hit a partition that waited (null: any), in each
        reading.
        """
        (place, group), (begin, end, ended) = (scope.place, scope.group), silence
        of_client = effect.target.startswith(("producer ", "member")) and effect.fault != "join"
        if of_client and (held := self._held_open(effect, scope, silence)) != {False}:
            return held
        if effect.target.startswith("producer "):
            return {False} if group is not None else self._waited(effect, place, begin, end)
        if effect.target.startswith("member"):
            if group is None or effect.fault == "join":
                return {False}
            return {self._owned(effect, scope, begin, until) for until in (end, min(end, effect.heal_began))}
        if effect.target == "cluster" or effect.target.startswith("topic "):
            mine = place is None or self._is_there(effect, place)
            mine = mine and self._is_about_users(effect, scope, silence)
            lowers = place is not None and self._lowers(effect, place)
            return {effect.healed > effect.begin and mine} | ({False} if lowers else set())
        if not effect.brokers or place is None:
            return {False}
        return self._hit(effect, place, Silence(max(begin, effect.begin), end, ended), group)

    def _held_open(self, effect: Effect, scope: Scope, silence: Silence) -> set[bool]:
        """Whether a group waited, in each reading, for a transaction of the producer, or of the member of a
        pipe, while a fault was in effect on it.
        """
        place, group = scope.place, scope.group
        if place is None or group is None or not silence.ended:
            return {False}
        mine = [
            (max(hold.begin, effect.begin), min(hold.end, effect.healed))
            for row, hold in self.transactions.held(place, group, silence.end)
            if self._made(effect, row)
        ]
        if not any(a < b for a, b in mine):
            return {False}
        return {
            any(
                max(w.begin, a) < min(w.end, b)
                for w in waits
                if w.condition == "transaction"
                for a, b in mine
            )
            for waits in self._waits(scope, silence)
        }

    def _made(self, effect: Effect, row: Row) -> bool:
        if effect.target.startswith("producer "):
            return effect.target == f"producer {row['producer']}"
        group = effect.target.rpartition(" of ")[2]
        prefix = f"kaput-{group}-"
        id_ = row["transactional_id"] or ""
        whose = re.fullmatch(re.escape(prefix) + r"(member-\d+(\.\d+)?)", id_)
        return whose is not None and hits_member(effect, group, whose[1]) is True

    def _is_about_users(self, effect: Effect, scope: Scope, silence: Silence) -> bool:
        """Whether what a step does to users may concern those who waited: of a partition its owners."""
        effects, group = self.failovers.effects, scope.group
        if group is not None:
            since, until = max(silence.begin, effect.begin), min(silence.end, effect.healed)
            spans = [] if scope.place is None else self._spans(scope.place, group)
            owners = {who for who, begin, end in spans if begin < until and end > since}
            users = [effects.members_users(group, owner) for owner in owners or {None}]
            return effects.is_about(effect, "Read", set().union(*users))
        rows = self.tables.rows("sends") if scope.place is None else self.tables.sends_of.get(scope.place, [])
        senders = {row["producer"] for row in rows} if scope.producer is None else {scope.producer}
        return effects.is_about(effect, "Write", effects.producers_users(senders))

    def hit_copies(self, effect: Effect, scope: Scope, silence: Silence) -> set[bool]:
        """Whether it hit copies of the partition that the group read, or a mirror that brought them."""
        if scope.place is None or scope.group is None:
            return {False}
        given = [self.tables.place(e) for e in self._assignments(scope.group)]
        own = silence._replace(begin=max(silence.begin, effect.begin))
        several = len({one.cluster for one in given if one is not None}) > 1  # it may have been elsewhere
        found = {False}
        for copy, mirrors in self.tables.copies(scope.place).items():
            if not any(one is not None and one[:2] == copy[:2] for one in given):
                continue
            if effect.target.startswith("mirror "):
                hit = {effect.target.removeprefix("mirror ") in mirrors}
            elif effect.target == "cluster" or effect.target.startswith("topic "):
                users = self._is_there(effect, copy) and effect.healed > effect.begin
                hit = {users and self._is_about_users(effect, scope._replace(place=copy), silence)}
                hit |= {False} if self._lowers(effect, copy) else set()
            else:
                hit = self._hit(effect, copy, own, scope.group)
            found = {one or other for one in found for other in hit | ({False} if several else set())}
        return found

    def singly(self, scope: Scope, silence: Silence) -> list[tuple[Scope, Silence]]:
        """A silence; of one of all partitions those of single ones meanwhile, else of each as long as it."""
        if scope.place is not None:
            return [(scope, silence)]
        every = [scope._replace(place=place) for place in self.failovers.places()]
        found = [
            (one, own)
            for one in every
            for own in self.failovers.silences.of(one)
            if own.begin < silence.end and own.end > silence.begin
        ]
        if found:
            return found
        rows = [*self.tables.rows("deliveries"), *self._assignments(scope.group)]
        read = {self.tables.place(row) for row in rows if row["group"] == scope.group}
        mine = [one for one in every if scope.group is None or one.place in read]
        return [(one, silence) for one in mine or [scope]]

    def held_up(self, effect: Effect, place: Place, silence: Silence) -> set[bool]:
        """Whether a fault held up a silence of a partition that it had hit: it is a cause of it, or perhaps
        its heal was waited for.
        """
        healed = effect.heal_began <= silence.end and effect.healed > silence.begin
        return self.hit(effect, Scope(place=place), silence) | ({True} if healed else set())

    def _waited(self, effect: Effect, place: Place | None, begin: int, end: int) -> set[bool]:
        """Whether a message of the producer waited meanwhile, for a second or in vain."""
        since, until = max(begin, effect.begin), min(end, effect.healed)
        sends = self.tables.rows("sends") if place is None else self.tables.sends_of[place]
        number, found = effect.target.removeprefix("producer "), {False}
        for s in (s for s in sends if str(s["producer"]) == number and s["attempt_ns"] < until):
            from_, to = s["attempt_ns"], s["done_ns"]
            if s["outcome"] != "acked":
                if to is not None and to > since:
                    return {True}
                # It is waited for a while longer: until the next one, or what comes.
                found |= {True} if (to or from_) + SECOND > since else set()
            elif to is not None and to - from_ >= SECOND and to > since:
                return {True}
        return found

    def _is_there(self, effect: Effect, place: Place) -> bool:
        """Whether an effect on a topic, or on a whole cluster, is one on that of a partition."""
        if effect.target == "cluster":
            return effect.is_in(place.cluster)
        return self.tables.place_of(None, effect.target.removeprefix("topic "), place.partition) == place

    def _lowers(self, effect: Effect, place: Place) -> bool:
        """Whether it is a step that does not raise min.insync.replicas: it may have ended the silence."""
        value = self.tables.sets_min_isr(effect.step, place)
        return value is not None and value <= self.tables.min_isr(place)

    def _hit(self, effect: Effect, place: Place, within: Silence, group: str | None) -> set[bool]:
        if not concerns(effect, place) or (group is None and effect.of_requests not in (None, *ACKS_NEED)):
            return {False}
        if effect.of_requests in ("AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"):
            return {False}  # a coordinator is asked, whatever it leads
        at, end, ended = within
        if effect.fault.startswith("rolling-"):
            each = [
                self._hit(one, place, Silence(max(at, since), end, ended), group)
                for one, since, until in self._turns(effect)
                if since < end and until > at
            ]
            return {True} if {True} in each else {False}.union(*each)
        scope, brokers = Scope(group, place), effect.brokers
        if group is None or effect.fault not in _STOPS or effect.healed <= end:
            return self._needed(effect, brokers, scope, within)
        # What was delivered did not wait for who did not run, and still led or was still in the ISR.
        isrs = set.intersection(*map(set, self.failovers.isr_at(place, end) or {()}))
        leads = [
            {self._led_last(place, end) if one < 0 else one}
            for one, _ in self.failovers.leaders_at(place, end)
        ]
        away = self._needed(effect, brokers - isrs - set.intersection(*(leads or [set()])), scope, within)
        # When its heal had begun, it may have run.
        return away if effect.heal_began > end else away | self._needed(effect, brokers, scope, within)

    def _led_last(self, place: Place, at: int) -> int:
        events = [e for e in self.tables.events_of(place) if e["leader"] is not None and e["leader"] >= 0]
        return next((int(e["leader"]) for e in reversed(events) if e["at_ns"] <= at), -1)

    def _needed(self, effect: Effect, brokers: frozenset[int], scope: Scope, within: Silence) -> set[bool]:
        """Whether the partition needed one of these brokers of a fault."""
        (group, place), (at, end, _) = (scope.group, scope.place), within
        assert place is not None
        found: set[bool] = set()
        for leader, _ in self.failovers.leaders_at(place, at):
            led = self._led_last(place, at) if leader < 0 else leader
            found.add(led in brokers or (group is None and self.asked(place, at) in brokers))
        if effect.of_requests is not None:
            return found or {False}
        all_acks = True if group is not None else self.tables.all_acks(place)
        if all_acks is not False:
            in_isr = {bool(brokers & set(isr)) for isr in self.failovers.isr_at(place, at)} or {False}
            for broker in brokers & self.left(effect, place, at):
                few = self._too_small_without(effect, broker, scope, within)
                in_isr = {one or other for one in in_isr for other in few}
            if True in in_isr and effect.fault not in _PREVENT:
                in_isr = {not more for more in self._waited_for_more(effect, scope, at, end)} or in_isr
            both = {one or other for one in found for other in in_isr}
            found = both if all_acks else both | found
        return found or {False}

    def left(self, effect: Effect, place: Place, at: int) -> set[int]:
        """The brokers that have been in the ISR since the effect, and may be out of it at this time."""
        since = [
            e
            for e in self.tables.events_of(place)
            if e["isr"] is not None and effect.begin <= e["at_ns"] < at
        ]
        isrs = [*self.failovers.isr_at(place, effect.begin), *(e["isr"] for e in since)]
        now = set.intersection(*map(set, self.failovers.isr_at(place, at) or {()}))
        return set().union(*isrs) - now

    def _too_small_without(self, effect: Effect, broker: int, scope: Scope, within: Silence) -> set[bool]:
        """Whether it waited while the ISR, without the broker, was below min.insync.replicas, per reading."""
        (at, end, ended), place, found = within, scope.place, set[bool]()
        assert place is not None
        until, events = min(end, effect.healed), [e["at_ns"] for e in self.tables.events_of(place)]
        cuts = sorted({at, until, *events, *self.failovers.effects.moments()})
        small = [
            (one, two, self._is_small(broker, place, (one + two) // 2, end))
            for one, two in pairwise(t for t in cuts if at <= t <= until)
        ]
        if not any(True in how for *_, how in small):
            return {False}
        for waits in self._waits(scope, within) if ended else [[Wait("", at, end)]]:
            mine = [w for w in waits if w.condition not in ("reread", "transaction")]
            each = [how for one, two, how in small if any(w.begin < two and w.end > one for w in mine)]
            found |= {True} if {True} in each else {False}.union(*each)
        return found or {False}

    def _is_small(self, broker: int, place: Place, at: int, end: int) -> set[bool]:
        """Whether the ISR is too small, and the broker not in it, in each reading."""
        effects, found = self.failovers.effects, set[bool]()
        for leader, _ in self.failovers.leaders_at(place, at):
            least = {effects.min_isr(place, leader, at, by) for by in (None, end)}
            isrs = self.failovers.isr_at(place, at)
            found |= {leader >= 0 and broker not in isr and 0 < len(isr) < n for isr in isrs for n in least}
        return found or {False}

    def _waited_for_more(self, effect: Effect, scope: Scope, at: int, end: int) -> set[bool]:
        """Whether it waited for something other than the ISR for as long as a fault slowed a member of it."""
        until, found = min(end, effect.healed), set()
        for waits in self._waits(scope, Silence(at, end, True)):
            begin, others = at, {True}
            for wait in waits:
                slowed = wait.condition in ("isr", "reread", "transaction")
                if begin < min(wait.end, until) and wait.begin < until and not slowed:
                    # What nothing was unmet in may be a part of this wait, or not.
                    others |= {False} if wait.condition == "heal" or wait.begin > begin else set()
                    begin = wait.end
            found |= others if begin >= until else {False}
        return found

    def asked(self, place: Place, at: int) -> int | None:
        """The leader of the last epoch that had acknowledged anything by then, if its process is there."""
        acked = {epoch for epoch, first in self.tables.first_acks(place).items() if first <= at}
        events = [e for e in self.tables.events_of(place) if e["at_ns"] <= at]
        led = [e for e in events if e["leader"] is not None and e["leader"] >= 0]
        known = [e["leader"] for e in led if e["leader_epoch"] in acked]
        return known[-1] if known and self.failovers.effects.is_up(known[-1], at) else None

    def _turns(self, effect: Effect) -> list[tuple[Effect, int, int]]:
        """A rolling restart as a restart of each broker, from the return of the one before to its own."""
        rows = sorted(self.tables.rows("cluster_events"), key=lambda e: e["at_ns"])
        turns: list[tuple[Effect, int, int]] = []
        begin, left = effect.begin, set(effect.brokers)
        for e in rows:
            broker, at = e["broker"], e["at_ns"]
            if e["kind"] == "stopped" and broker in left and effect.begin <= at < effect.healed:
                left.remove(broker)
                started = [o for o in rows if o["kind"] == "started" and o["broker"] == broker]
                back = next((o["at_ns"] for o in started if o["at_ns"] > at), 1 << 62)
                turns.append((self._restart(effect, broker), begin, back))
                begin = back
        return turns + [(self._restart(effect, broker), effect.begin, effect.healed) for broker in left]

    def _restart(self, effect: Effect, broker: int) -> Effect:
        return effect._replace(fault="restart", brokers=frozenset({broker}))

    def _owned(self, effect: Effect, scope: Scope, begin: int, end: int) -> bool:
        """Whether the member owned the partition while the fault was in effect, or was the last to own it."""
        since, until = max(begin, effect.begin), min(end, effect.healed)
        for place in {self.tables.place(e) for e in self._assignments(scope.group)} - {None}:
            if scope.place in (None, place) and place is not None:
                spans = self._spans(place, scope.group or "")
                mine = [s for s in spans if hits_member(effect, scope.group or "", s[0]) is not False]
                if any(from_ < until and to > since for _, from_, to in mine):
                    return True
        return False

    def _assignments(self, group: str | None) -> list[Row]:
        events = self.tables.rows("group_events")
        return [e for e in events if e["group"] == group and e["kind"] == "assigned"]

    def _spans(self, place: Place, group: str) -> list[tuple[str, int, int]]:
        """(member, from, to): a member is the last to own a partition until another is assigned it."""
        events = [e for e in self._assignments(group) if self.tables.place(e) == place]
        events.sort(key=lambda e: e["at_ns"])
        ends = [*(e["at_ns"] for e in events[1:]), 1 << 62]
        return [(e["member"], e["at_ns"], end) for e, end in zip(events, ends, strict=True)]
