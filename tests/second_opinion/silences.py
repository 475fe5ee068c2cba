"""When nothing was acknowledged, or first delivered to a group, for a second while a message waited."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from second_opinion.raw import SECOND, Place, Row, RunTables


class Scope(NamedTuple):
    """Whose silence: of all partitions or of one, of one producer in it, of a group's first deliveries."""

    group: str | None = None
    place: Place | None = None
    producer: int | None = None


class Waiting(NamedTuple):
    """One message: from when it waited until when; `came`: it was acknowledged, or delivered, then."""

    begin: int
    end: int
    came: bool


class Silence(NamedTuple):
    """`ended`: an acknowledgement, or a delivery, ended it; else the waiting was over."""

    begin: int
    end: int
    ended: bool


def silences(waits: Iterable[Waiting]) -> list[Silence]:
    """All of them, in the order of their beginnings."""
    ordered = sorted(waits)
    came = sorted({wait.end for wait in ordered if wait.came})
    spans: list[list[int]] = []
    for wait in sorted(_prolonged(ordered, came)):
        if spans and wait.begin <= spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], wait.end)
        else:
            spans.append([wait.begin, wait.end])
    found: list[Silence] = []
    for begin, end in spans:
        at = begin
        for next_ in came[bisect_left(came, begin) : bisect_right(came, end)]:
            if next_ - at >= SECOND:
                found.append(Silence(at, next_, True))
            at = next_
        if end - at >= SECOND:
            found.append(Silence(at, end, False))
    return found


def _prolonged(waits: list[Waiting], came: list[int]) -> Iterator[Waiting]:
    """What was not acknowledged is waited for until the attempt of the next message that waits in vain, or
    for a second, if that is less than a second later; else until an acknowledgement that is.
    """
    begins = sorted(wait.begin for wait in waits if not wait.came or wait.end - wait.begin >= SECOND)
    for wait in waits:
        if wait.came:
            yield wait
            continue
        nexts = (_following(times, wait.end) for times in (begins, came))
        yield wait._replace(end=next((n for n in nexts if n - wait.end < SECOND), wait.end))


def _following(times: list[int], after: int) -> int:
    number = bisect_right(times, after)
    return times[number] if number < len(times) else after + SECOND


class Silences:
    """Those of one run, in every scope, in each reading of what a group had to be delivered."""

    def __init__(self, tables: RunTables) -> None:
        self.tables = tables
        self._found: dict[Scope, list[list[Silence]]] = {}

    def readings(self, scope: Scope) -> list[list[Silence]]:
        """What there is of them: one list for each reading."""
        if scope not in self._found:
            choices = self._acks(scope) if scope.group is None else self._deliveries(scope)
            readings: list[list[Silence]] = []
            for waits in choices:
                found = silences(waits)
                if found not in readings:
                    readings.append(found)
            self._found[scope] = readings
        return self._found[scope]

    def of(self, scope: Scope) -> list[Silence]:
        """By the first reading, the closest to the words."""
        return self.readings(scope)[0]

    def loads(self, scope: Scope) -> set[int]:
        """From the first attempt to the last outcome, or delivery, that is known: in each reading."""
        if scope.group is None:
            sends = self._sends(scope)
            ends = [max(s["attempt_ns"], s["done_ns"] or 0) for s in sends]
            known = [s["attempt_ns"] for s in sends if s["done_ns"] is not None]
            begins = {min((s["attempt_ns"] for s in sends), default=None), min(known, default=None)}
            return {max(ends) - begin for begin in begins if begin is not None} or {0}
        choices = [waits for waits in self._deliveries(scope) if waits]
        return {max(w.end for w in waits) - min(w.begin for w in waits) for waits in choices} or {0}

    @cache  # noqa: B019
    def backwards(self, scope: Scope) -> bool:
        """Whether anything came before it was attempted: the record contradicts itself."""
        first = self.tables.first_delivery.get(scope.group or "", {})
        for send in self._sends(scope):
            at = send["done_ns"] if scope.group is None else first.get((send["producer"], send["seq"]))
            if at is not None and at < send["attempt_ns"]:
                return True
        return False

    def scopes(self) -> list[Scope]:
        """Of acknowledgements and of each group: all partitions together, and each one."""
        places = sorted(self.tables.sends_of, key=str)
        every = [None, *self.tables.groups]
        return [Scope(group, place) for group in every for place in [None, *places]]

    @cache  # noqa: B019
    def _sends(self, scope: Scope) -> list[Row]:
        if scope.place is None:
            sends = self.tables.rows("sends")
        elif scope.group is None:
            sends = self.tables.sends_of.get(scope.place, [])
        else:  # a group is handed a message from where it is stored
            sends = self.tables.sends_in(scope.place)
        return [s for s in sends if scope.producer in (None, s["producer"])]

    @cache  # noqa: B019
    def _acks(self, scope: Scope) -> list[list[Waiting]]:
        """With and without the messages that never had an outcome: how long those waited is not known."""
        timed, untimed = [], []
        for send in self._sends(scope):
            begin, done = send["attempt_ns"], send["done_ns"]
            if done is not None:
                timed.append(Waiting(begin, max(begin, done), send["outcome"] == "acked"))
            elif send["outcome"] != "acked":
                untimed.append(Waiting(begin, begin, False))
        return [timed + untimed, timed] if untimed else [timed]

    @cache  # noqa: B019
    def _deliveries(self, scope: Scope) -> list[list[Waiting]]:
        assert scope.group is not None
        first = self.tables.first_delivery.get(scope.group, {})
        owed, other = [], []
        for send in self._sends(scope):
            at = first.get((send["producer"], send["seq"]))
            if at is None:
                continue
            wait = Waiting(send["attempt_ns"], max(send["attempt_ns"], at), True)
            due = self.tables.due(send) or self.tables.removed(send)
            (owed if due else other).append((wait, send["outcome"]))
        readings = [[wait for wait, _ in owed]]
        if other:
            # What it did not have to be delivered does not wait, but ends a silence all the same.
            readings.insert(0, readings[0] + [Waiting(wait.end, wait.end, True) for wait, _ in other])
            readings.append([wait for wait, _ in owed + other])
        acked = [wait for wait, outcome in owed if outcome == "acked"]
        return readings if len(acked) == len(owed) else [*readings, acked]
