"""Standstills, availability and what ended each, in plain Python: by the words of docs/GLOSSARY.md.

Moment by moment and message by message, not by spells. Of histories whose events are in whole ms.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from fakes.histories import History
from fakes.oracle_groups import Groups
from fakes.oracle_rows import Place, Row, place

SECOND = 1_000_000_000
Scope = tuple[str | None, Place | None]  # the group (None: acknowledgements), the partition (None: all)


class Wait(NamedTuple):
    """One message: from when it was waited for, until when; `came`: whether it did come then; `due`: whether
    it was waited for at all.
    """

    begin: int
    end: int
    came: bool
    at: Place | None
    due: bool = True


class Standstills:
    """Of one history."""

    def __init__(self, history: History) -> None:
        self.history, self.groups = history, Groups(history)
        self.waits: dict[str | None, list[Wait]] = {None: [self._ack(s) for s in history.rows["sends"]]}
        for group in sorted({d["group"] for d in history.rows["deliveries"]} | set(history.groups)):
            self.waits[group] = list(self._deliveries(group))

    def found(self) -> dict[tuple[Any, ...], tuple[int, str | None]]:
        """By scope and begin: how long in ns, and what ended it."""
        told = {}
        pauses = {scope: _pauses(waits) for scope, waits in self._scopes().items()}
        for (group, where), found in pauses.items():
            for begin, end, ended in found:
                # All together went on with one partition, which had stood still itself.
                first = [
                    at
                    for (of, at), single in pauses.items()
                    if of == group and at is not None and any(end == one[1] for one in single)
                ]
                ends_of = min(first, default=None) if where is None else where
                by = self._ended_by(ends_of, begin, end) if ended else None
                told[group, where, begin] = (end - begin, by)
        return told

    def counts(self) -> dict[Scope, tuple[int, int]]:
        """By scope: how many messages there were, and how many of them came within a second."""
        told: dict[Scope, tuple[int, int]] = {**self.groups.within_1s()}
        sends = self.history.rows["sends"]
        for where in {None, *(place(s) for s in sends if s["partition"] is not None)}:
            mine = [s for s in sends if where in (None, place(s))]
            if mine:
                told[None, where] = (len(mine), sum(map(_acked_quickly, mine)))
        return told

    def _ack(self, send: Row) -> Wait:
        known, begin = send["done_ns"] is not None, send["attempt_ns"]
        end = max(begin, send["done_ns"]) if known else begin
        where = None if send["partition"] is None else place(send)
        return Wait(begin, end, known and send["outcome"] == "acked", where)

    def _deliveries(self, group: str) -> list[Wait]:
        """First deliveries end a standstill; what was lost or aborted is not waited for."""
        found = []
        for send in self.history.rows["sends"]:
            first, begin = self.groups.first(group, send), send["attempt_ns"]
            if first is not None:
                due = self.groups.due(group, send)
                found.append(Wait(begin, max(first, begin), True, self.groups.at(send), due))
        return found

    def _scopes(self) -> dict[Scope, list[Wait]]:
        found: dict[Scope, list[Wait]] = defaultdict(list)
        for group, waits in self.waits.items():
            for wait in waits:
                found[group, None].append(wait)
                if wait.at is not None:
                    found[group, wait.at].append(wait)
        return found

    def _ended_by(self, where: Place | None, begin: int, end: int) -> str:
        rows = self.history.rows
        events = [e for e in rows["cluster_events"] if where in (None, place(e))]
        led: dict[Place, int] = {}
        elections, isrs = [], []
        for e in sorted(events, key=lambda e: (e["at_ns"], e["leader_epoch"] or 0)):
            if e["kind"] == "leader" and place(e) in led and e["leader"] >= 0:
                elections.append(e["at_ns"])
            if e["kind"] == "leader" and e["leader"] >= 0:
                led[place(e)] = e["leader"]
            if e["kind"] == "isr":
                isrs.append(e["at_ns"])
        heals = [f["healed_ns"] for f in rows["faults"] if f["healed_ns"] is not None]
        within = {
            name: max((at for at in times if begin <= at <= end), default=None)
            for name, times in (("heal", heals), ("election", elections), ("isr", isrs))
        }
        healed, elected, isr = within.values()
        if healed is not None:
            before = max((at for at in elections if begin <= at <= healed), default=None)
            helpless = before is None or healed - before > 5 * SECOND
            if elected is None or end - healed <= (15 if helpless else 5) * SECOND:
                return "heal"
        for name, at in (("election", elected), ("isr", isr)):
            if at is not None and end - at <= 5 * SECOND:
                return name
        if any(end < at <= end + 2 * SECOND for at in heals):
            return "heal"
        given_up = [
            s["done_ns"]
            for s in rows["sends"]
            if s["outcome"] != "acked" and s["done_ns"] is not None and (where is None or place(s) == where)
        ]
        happened = any(at is not None for at in within.values())
        return "client" if happened or any(begin <= at <= end for at in given_up) else "unknown"


def _acked_quickly(send: Row) -> bool:
    done = send["done_ns"] if send["outcome"] == "acked" else None
    return done is not None and done - send["attempt_ns"] <= SECOND


def _pauses(waits: list[Wait]) -> list[tuple[int, int, bool]]:
    """(begin, end, whether something came): at least a second without what was waited for."""
    spans: list[list[int]] = []
    for wait in sorted((one for one in waits if one.due), key=lambda one: one[:2]):
        if spans and wait.begin < spans[-1][1] + SECOND:
            spans[-1][1] = max(spans[-1][1], wait.end)
        else:
            spans.append([wait.begin, wait.end])
    came = sorted(wait.end for wait in waits if wait.came)
    found = []
    for begin, end in spans:
        at = begin
        for next_ in [*(one for one in came if begin <= one <= end), end]:
            if next_ - at >= SECOND:
                found.append((at, next_, next_ in came))
            at = next_
    return found
