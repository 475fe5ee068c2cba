"""What a fault of brokers did to partitions: elections, first acknowledgements, affected and lost ones.

Each function returns the set of values that the law allows: one, unless the record or the law leaves more
open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from second_opinion.effects import ENDS, Effect, Effects
from second_opinion.raw import MS, Place, Row, RunTables
from second_opinion.silences import Scope, Silence, Silences


class Election(NamedTuple):
    """The event that ended it."""

    at: int
    leader: int
    epoch: int


class Window(NamedTuple):
    """In which a fault affected a partition, and how many attempts and affected messages there are."""

    begin: int
    end: int
    sent: int
    affected: int


ACKS_NEED = ("Produce", "Metadata", "ApiVersions", "InitProducerId", "AddPartitionsToTxn")
MOVES = ("move-leader", "elect-preferred", "move-replicas")


def concerns(fault: Effect, place: Place) -> bool:
    """A step that moves one partition (`leader-of orders/0`) hits its brokers only there."""
    name, _, partition = fault.target.partition(" ")[2].rpartition("/")
    if fault.fault not in MOVES or not name:
        return True
    return name.rpartition(":")[2] == place.topic and partition == str(place.partition)


class Failovers:
    """Of one run."""

    def __init__(self, tables: RunTables, effects: Effects, silences: Silences) -> None:
        self.tables, self.effects, self.silences = tables, effects, silences
        self.held_up: Callable[[Effect, Place, Silence], set[bool]]  # whether a fault did, in each reading

    # Who led.

    def leaders_at(self, place: Place, at: int) -> set[tuple[int, int | None]]:
        """Leader and epoch at a time; both, where a change is recorded in its ms, or polled after it."""
        found: set[tuple[int, int | None]] = set()
        last: tuple[int, int | None] | None = None
        for event in self.tables.events_of(place):
            if event["leader"] is None:
                continue
            within = event.get("within_ns") or 0
            if event["at_ns"] - within > at:
                break
            now = event["leader"], event["leader_epoch"]
            if event["at_ns"] + MS - 1 >= at:  # it may have come just before or just after
                found.add(now)
                if last is not None:
                    found.add(last)
            last = now
        if not found and last is not None:
            found.add(last)
        return found

    def isr_at(self, place: Place, at: int) -> set[tuple[int, ...]]:
        """The in-sync replicas at a time, likewise."""
        found: set[tuple[int, ...]] = set()
        last: tuple[int, ...] | None = None
        for event in self.tables.events_of(place):
            if event["isr"] is None:
                continue
            if event["at_ns"] - (event.get("within_ns") or 0) > at:
                break
            if event["at_ns"] + MS - 1 >= at:
                found.add(tuple(event["isr"]))
                if last is not None:
                    found.add(last)
            last = tuple(event["isr"])
        if not found and last is not None:
            found.add(last)
        return found

    def places(self) -> list[Place]:
        """Partitions of the run's topics, and of their copies, of which any leader is recorded."""
        named = {(s["cluster"], s["topic"]) for s in self.tables.rows("sends")}
        named |= {(e["cluster"], e["topic"]) for e in self.tables.rows("end_offsets")}
        named |= {
            (t.get("cluster") or self.tables.first_cluster, t["name"])
            for t in self.tables.scenario.get("topics") or []
        }
        events = {p for e in self.tables.rows("cluster_events") if (p := self.tables.place(e)) is not None}
        return sorted((p for p in events if p[:2] in named), key=str)

    # Elections.

    def elections(self, fault: Effect, place: Place) -> set[Election | None]:
        """The election by which a fault moved a partition, or null."""
        if not concerns(fault, place) or fault.of_requests is not None:
            return {None}
        found: set[Election | None] = set()
        for leader, epoch in self.leaders_at(place, fault.begin):
            found |= self._elections(fault, place, epoch, fault.begin) if leader in fault.brokers else {None}
        return found or {None}

    def _elections(self, fault: Effect, place: Place, epoch: int | None, since: int) -> set[Election | None]:
        """Of a partition that the fault's target led, in this epoch at this time; both readings if it came
        after the heal, or with the next fault.
        """
        led = {leader for leader, _ in self.leaders_at(place, fault.begin)} & fault.brokers
        others = [e for e in self.effects.of_brokers if e.fault != "noop" and concerns(e, place)]
        nexts = [e.begin for e in others if e.begin > fault.begin and e.brokers & led]
        until = min(nexts, default=None)
        for event in self.tables.events_of(place):
            if event["kind"] != "leader" or (event["leader"] if event["leader"] is not None else -1) < 0:
                continue
            if event["at_ns"] + MS - 1 < fault.begin or event["leader_epoch"] is None:
                continue
            if self._anew(place, since, event):  # its first leader: no election, but it may be down already
                if event["leader"] not in fault.brokers:
                    return {None}
                epoch, since = event["leader_epoch"], event["at_ns"]
            if epoch is not None and event["leader_epoch"] <= epoch:
                continue
            if until is not None and event["at_ns"] > until:
                return {None} | self._while_it_goes_on(fault, place, event["at_ns"])
            planned = led & set(event["isr"] or ()) - {event["leader"]} and not event.get("within_ns")
            if planned and fault.fault not in (*MOVES, *ENDS) and event["at_ns"] > fault.healed:
                return {None}
            election = Election(event["at_ns"], event["leader"], event["leader_epoch"])
            found: set[Election | None] = {election}
            if self.had_no_term(place, election.at, election.epoch):  # it led nothing
                found |= self._elections(fault, place, election.epoch, election.at)
            if event["at_ns"] > fault.healed or (until is not None and event["at_ns"] + MS > until):
                found.add(None)
            return found
        return {None}

    def _anew(self, place: Place, since: int, event: Row) -> bool:
        """Whether the event is of a topic that was created since: its epochs begin at 0."""
        return any(
            self.tables.place_of(None, e.target.removeprefix("topic "), place.partition) == place
            for e in self.effects.all
            if e.fault in ("recreate", "delete-topic") and since < e.begin < event["at_ns"] + MS
        )

    def _while_it_goes_on(self, fault: Effect, place: Place, since: int) -> set[Election]:
        """Later elections of a fault that hits one broker after another."""
        if fault.fault not in ("rolling-restart", "rolling-upgrade"):
            return set()
        led = [
            e for e in self.tables.events_of(place) if e["kind"] == "leader" and e["leader_epoch"] is not None
        ]
        return {
            Election(later["at_ns"], later["leader"], later["leader_epoch"])
            for one, later in pairwise(led)
            if one["leader"] in fault.brokers
            and since < later["at_ns"] <= fault.healed
            and later["leader"] >= 0
        }

    # First acknowledgements.

    def first_acks(self, place: Place, election: Election) -> set[int | None]:
        """The first acknowledgement under the epoch of an election."""
        later = [
            e["at_ns"]
            for e in self.tables.events_of(place)
            if e["kind"] == "leader" and (e["leader_epoch"] or 0) > election.epoch
        ]
        until = min(later, default=None)
        proven, possible, following, removed = [], [], [], []
        for send, record in self._acked(place):
            done = send["done_ns"]
            if done is None or done // MS < election.at // MS:
                continue
            if record is not None and record["leader_epoch"] is not None:
                if record["leader_epoch"] == election.epoch:
                    proven.append(done)
                elif record["leader_epoch"] > election.epoch:
                    following.append(done)
                    continue
            there = record is not None or self.tables.may_remove(place)
            if there and (until is None or done < until):
                possible.append(done)
                removed += [done] if record is None and done // MS > election.at // MS else []
        if self.tables.all_acks(place) is True and removed and len(removed) == len(possible) - len(proven):
            # No deposed leader acknowledges with acks=all: whether the log still has the message is the same.
            return {min(removed + proven)}
        found: set[int | None] = {min(times) for times in (proven, possible) if times}
        if not proven:  # a leader that acknowledged nothing: whether its successor counts is left open
            found |= {None, min(following, default=None)}
        return found

    @cache  # noqa: B019
    def _acked(self, place: Place) -> list[tuple[Row, Row | None]]:
        """The acknowledged sends of a partition, each with its record."""
        sends = self.tables.sends_of.get(place, [])
        return [(send, self._record(place, send)) for send in sends if send["outcome"] == "acked"]

    def _record(self, place: Place, send: Row) -> Row | None:
        """The record that was acknowledged, if it is still where the acknowledgement says."""
        if send["offset"] is None:
            return next(iter(self.tables.home_records(send)), None)
        record = self.tables.stored_at.get(place, {}).get(send["offset"])
        return record if record in self.tables.home_records(send) else None

    # Affected messages.

    def hit(self, fault: Effect, place: Place) -> set[bool]:
        """Whether a fault hit a partition: led by a target, or with acks=all a target in its ISR."""
        if not concerns(fault, place):
            return {False}
        led = {leader in fault.brokers for leader, _ in self.leaders_at(place, fault.begin)} or {False}
        if fault.of_requests is not None:
            return led if fault.of_requests in ACKS_NEED else {False}
        if self.tables.all_acks(place) is False:
            return led
        in_isr = {bool(fault.brokers & set(isr)) for isr in self.isr_at(place, fault.begin)} or {False}
        found = {one or other for one in led for other in in_isr}
        return found if self.tables.all_acks(place) else found | led

    def windows(self, fault: Effect, place: Place) -> set[Window | None]:
        """What a fault affected of a partition that it hit."""
        found: set[Window | None] = set()
        for reading in self.silences.readings(Scope(place=place)):
            ends = self._ends(fault, place, reading)
            for end in ends:
                if end is None or end <= fault.begin:
                    found.add(None)
                else:
                    found |= self._counted(place, fault.begin, end)
        return found

    def _ends(self, fault: Effect, place: Place, found: list[Silence]) -> set[int | None]:
        ends: set[int | None] = set()
        for own in (s for s in found if s.end > fault.begin and s.begin < fault.healed):
            held_up = self.held_up(fault, place, own)
            if True in held_up:  # what was attempted last is in one that ended with the load
                ends.add(own.end + (not own.ended))
            if held_up == {True}:
                return ends
        for election in self.elections(fault, place):
            ends |= {None} if election is None else self.first_acks(place, election)
        return ends

    def _counted(self, place: Place, begin: int, end: int) -> set[Window | None]:
        sent = affected = unclear = 0
        for send in self.tables.sends_of.get(place, []):
            if not begin <= send["attempt_ns"] < end:
                continue
            sent += 1
            late = send["done_ns"] is not None and send["done_ns"] >= end
            if send["outcome"] != "acked" or late:
                affected += 1
            elif not self.tables.home_records(send):
                outcome = self.tables.transaction_outcome(send)
                if outcome == "aborted":  # it is not promised to be there
                    continue
                known = self.tables.read_to_end(place) and not self.tables.may_remove(place)
                if known and outcome != "unknown":
                    affected += 1
                else:
                    unclear += 1
        return {Window(begin, end, sent, affected + n) for n in range(unclear + 1)}

    # What was overwritten.

    def overwritten(self, place: Place) -> list[Row]:
        """Acknowledgements whose record is not where it was acknowledged."""
        return [send for send, record in self._acked(place) if record is None]

    def overwritten_by(self, place: Place, epoch: int) -> tuple[int, int] | None:
        """The least and the most acknowledgements that an epoch may have overwritten; null: not known."""
        if not self.tables.read_to_end(place) or self.tables.may_remove(place):
            return None
        least = most = 0
        for send in self.overwritten(place):
            epochs = self._overwriting(place, send)
            if epoch in epochs:
                most += 1
                least += len(epochs) == 1 and send["offset"] is not None
        return least, most

    def _overwriting(self, place: Place, send: Row) -> set[int]:
        """Every epoch that may have overwritten an acknowledgement: it began at or below its offset."""
        starts = self._starts(place)
        return {epoch for epoch, start in starts.items() if send["offset"] is None or start <= send["offset"]}

    @cache  # noqa: B019
    def _starts(self, place: Place) -> dict[int, int]:
        """By epoch but the first: the first offset that is known to be its own, or of a later one."""
        end = (self.tables.ends.get(place) or {}).get("end_offset") or 0
        epochs = {e["leader_epoch"] for e in self.tables.events_of(place) if e["leader_epoch"] is not None}
        own: dict[int, int] = {}
        for offset, record in self.tables.stored_at.get(place, {}).items():
            epoch = record["leader_epoch"]
            if epoch is not None:
                own[epoch] = min(offset, own.get(epoch, offset))
        ordered = sorted(epochs | own.keys())
        found, start = {}, end
        for epoch in reversed(ordered[1:]):
            start = min(start, own.get(epoch, start))
            found[epoch] = start
        return found

    def deposed_total(self, place: Place) -> int | None:
        """All acknowledgements of a partition that later epochs overwrote; null: not known."""
        if not self.tables.read_to_end(place) or self.tables.may_remove(place):
            return None
        if any(send["offset"] is None for send in self.overwritten(place)):
            return None
        return sum(bool(self._overwriting(place, send)) for send in self.overwritten(place))

    def had_no_term(self, place: Place, elected: int, epoch: int) -> bool:
        """Whether this leader led nothing: the next event came in the same ms, or before it was there."""
        later = [
            e["at_ns"]
            for e in self.tables.events_of(place)
            if e["kind"] == "leader" and e["leader_epoch"] is not None and e["leader_epoch"] > epoch
        ]
        if not later or min(later) // MS == elected // MS:
            return bool(later)
        mine = [
            e for e in self.tables.events_of(place) if e["leader_epoch"] == epoch and e["leader"] is not None
        ]
        return any(
            all(
                self.effects.is_booting(e["leader"], at) or not self.effects.is_up(e["leader"], at)
                for at in (elected, elected + MS - 1, min(later) - 1)
            )
            for e in mine
            if e["leader"] >= 0
        )
