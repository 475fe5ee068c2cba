"""Standstills and availability in plain Python, by the words of docs/GLOSSARY.md.

Moment by moment and message by message, not by spells. Not here: what each waited for, which
tests/second_opinion derives from the record in a way of its own.
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
    def __init__(self, history: History) -> None:
        self.history, self.groups = history, Groups(history)
        self.waits: dict[str | None, list[Wait]] = {
            None: [self._ack(s) for s in history.rows["sends"] if self._timed(s)]
        }
        for group in sorted({d["group"] for d in history.rows["deliveries"]} | set(history.groups)):
            self.waits[group] = list(self._deliveries(group))

    def found(self) -> dict[tuple[Any, ...], tuple[int, bool]]:
        """By scope and begin: how long in ns, and whether something came at its end."""
        return {
            (*scope, begin): (end - begin, came)
            for scope, waits in self._scopes().items()
            for begin, end, came in _pauses(waits)
        }

    def longest(self) -> dict[tuple[int, Place], tuple[int, int]]:
        """By producer and partition: the longest standstill of its own (from, to), the first of equals."""
        streams: dict[tuple[int, Place], list[Wait]] = defaultdict(list)
        for send in self.history.rows["sends"]:
            if send["partition"] is not None and self._timed(send):
                streams[send["producer"], place(send)].append(self._ack(send))
        told = {}
        for stream, waits in streams.items():
            found = sorted((begin - end, begin, end) for begin, end, _ in _pauses(waits))
            if found:
                told[stream] = found[0][1:]
        return told

    def counts(self) -> dict[Scope, tuple[int, int]]:
        """By scope: how many messages there were, and how many of them came within a second."""
        told: dict[Scope, tuple[int, int]] = {**self.groups.within_1s()}
        sends = self.history.rows["sends"]
        for where in {None, *(place(s) for s in sends if s["partition"] is not None)}:
            mine = [s for s in sends if where in (None, place(s)) and self._timed(s)]
            if mine:
                told[None, where] = (len(mine), sum(map(_acked_quickly, mine)))
        return told

    def _timed(self, send: Row) -> bool:
        """Acknowledgements without a time make no standstills."""
        return send["outcome"] != "acked" or send["done_ns"] is not None

    def _ack(self, send: Row) -> Wait:
        known, begin = send["done_ns"] is not None, send["attempt_ns"]
        end = max(begin, send["done_ns"]) if known else begin
        where = None if send["partition"] is None else place(send)
        return Wait(begin, end, known and send["outcome"] == "acked", where)

    def _deliveries(self, group: str) -> list[Wait]:
        """First deliveries end a standstill; what was lost or aborted is not waited for, what a cleaned log
        has removed is.
        """
        found = []
        for send in self.history.rows["sends"]:
            first, begin = self.groups.first(group, send), send["attempt_ns"]
            if first is not None:
                due = self.groups.due(group, send) or self._removed(send)
                found.append(Wait(begin, max(first, begin), True, self.groups.at(send), due))
        return found

    def _removed(self, send: Row) -> bool:
        """Whether the log of a message that it lacks may have removed it."""
        config: Row = next(
            (t.get("config", {}) for t in self.history.topics if t["name"] == send["topic"]), {}
        )
        ends = [e for e in self.history.rows["end_offsets"] if place(e) == place(send)]
        cleaned = "compact" in str(config.get("cleanup.policy")) or any(e.get("start_offset") for e in ends)
        oracle = self.groups.oracle
        gone = send["outcome"] == "acked" and oracle.stored(send) == "0"
        return cleaned and gone and oracle.transactions.outcome(send) in (None, "committed")

    def _scopes(self) -> dict[Scope, list[Wait]]:
        found: dict[Scope, list[Wait]] = defaultdict(list)
        for group, waits in self.waits.items():
            for wait in waits:
                found[group, None].append(wait)
                if wait.at is not None:
                    found[group, wait.at].append(wait)
        return found


def _acked_quickly(send: Row) -> bool:
    done = send["done_ns"] if send["outcome"] == "acked" else None
    return done is not None and done - send["attempt_ns"] <= SECOND


def _pauses(waits: list[Wait]) -> list[tuple[int, int, bool]]:
    """(begin, end, whether something came): at least a second without what was waited for."""
    came = sorted(wait.end for wait in waits if wait.came)
    spans: list[list[int]] = []  # begin, end, until when what failed may still be waited for
    for wait in sorted((one for one in waits if one.due), key=lambda one: one[:2]):
        if wait.came and wait.end - wait.begin < SECOND:
            continue
        reach = wait.end + (0 if wait.came else SECOND)
        if spans and wait.begin < spans[-1][2]:
            spans[-1][1:] = [max(spans[-1][1], wait.end), max(spans[-1][2], reach)]
        else:
            spans.append([wait.begin, wait.end, reach])
    found = []
    for begin, end, reach in spans:
        later = next((one for one in came if one >= end), reach)
        over = later if later < reach else end
        at = begin
        for next_ in [*(one for one in came if begin <= one <= over), over]:
            if next_ - at >= SECOND:
                found.append((at, next_, next_ in came))
            at = next_
    return found
