"""What a group had to be delivered, how much of it came within a second, what was stuck and how its lag went,
in plain Python: docs/GLOSSARY.md, message by message and sample by sample.
"""

from __future__ import annotations

from collections.abc import Iterator

from fakes.histories import History
from fakes.oracle import Oracle
from fakes.oracle_late import Late
from fakes.oracle_rows import Place, Row, named, place, who

SECOND = 1_000_000_000


class Groups:
    """Of one history with one cluster."""

    def __init__(self, history: History) -> None:
        self.history, self.oracle = history, Oracle(history)

    def first(self, group: str, send: Row) -> int | None:
        """When a message was first delivered to a group."""
        mine = [d for d in self.oracle.deliveries if d["group"] == group and named(d)]
        return min((d["polled_ns"] for d in mine if who(d) == who(send)), default=None)

    def due(self, group: str, send: Row) -> bool:
        """Whether a group of its topic has to be delivered a message: committed, visible, not lost."""
        topics = self.history.subscriptions.get(group, [t["name"] for t in self.history.topics])
        stored, outcome = self.oracle.stored(send), self.oracle.transactions.outcome(send)
        if send["topic"] not in topics or outcome == "aborted":
            return False
        if stored == "unread":
            return send["outcome"] == "acked" and outcome in (None, "committed")
        return stored in ("1", "n")

    def for_it(self, group: str, send: Row) -> bool:
        """The same, without what was stored before the group began, as far as that is known."""
        if not self.due(group, send) or self.first(group, send) is not None:
            return self.due(group, send)
        late = Late(self.oracle, group)
        copy = late.copy(send)
        if late.back_ns is None:
            return True
        return copy is not None and late.ruling(copy["offset"], send, place(copy)) == "owed"

    def at(self, send: Row) -> Place | None:
        """Where it is stored, else where it was sent."""
        copy = Late(self.oracle, "").copy(send)
        row = copy or send
        return None if row["partition"] is None else place(row)

    def within_1s(self) -> dict[tuple[str | None, Place | None], tuple[int, int]]:
        """By group and partition (None: all): what it had to be delivered, and what came within a second."""
        found: dict[tuple[str | None, Place | None], tuple[int, int]] = {}
        for group in self.oracle.groups:
            mine = [s for s in self.oracle.sends if self.for_it(group, s)]
            for where in {None, *(self.at(s) for s in mine)}:
                here = [s for s in mine if where in (None, self.at(s))]
                quick = [f for s in here if (f := self._took(group, s)) is not None and f <= SECOND]
                if here:
                    found[group, where] = len(here), len(quick)
        return found

    def _took(self, group: str, send: Row) -> int | None:
        first = self.first(group, send)
        return None if first is None else int(first - send["attempt_ns"])

    def stuck(self) -> dict[str, dict[str, int]]:
        """By fault on brokers and group: what was acknowledged 5 s before the heal, and first delivered after
        it.
        """
        found: dict[str, dict[str, int]] = {}
        for fault in self.history.rows["faults"]:
            for group in self.oracle.groups:
                n = len(list(self._stuck(fault, group)))
                if n and fault["bit"] and fault["effective_ns"] is not None and fault["brokers"]:
                    found.setdefault(fault["id"], {})[group] = n
        return found

    def backlogs(self) -> dict[tuple[str, str], tuple[int, int, int | None, int]]:
        """By fault and group: its greatest lag before, the first sample above that (up to the first one since
        the heal), the first one after it that is back, and the greatest in between. Samples are of one
        partition, the ISR is always full.
        """
        found, faults = {}, [f for f in self.history.rows["faults"] if f["effective_ns"] is not None]
        for fault, group in ((f, g) for f in faults for g in self.oracle.groups):
            since = fault["effective_ns"]
            until = min((f["effective_ns"] for f in faults if f["effective_ns"] > since), default=2**62)
            rows = [r for r in self.history.rows["samples"] if dict(r["labels"]).get("group") == group]
            lags = sorted((r["at_ns"], r["value"]) for r in rows if r["name"] == "lag")
            healed = 2**62 if fault["healed_ns"] in (None, since) else fault["healed_ns"]
            until = min(until, 1 + min((at_ns for at_ns, _ in lags if at_ns >= healed), default=2**62))
            earlier = [lag for at_ns, lag in lags if at_ns < since]
            above = [
                at_ns for at_ns, lag in lags if since <= at_ns < until and earlier and lag > max(earlier)
            ]
            if above:
                back = [at_ns for at_ns, lag in lags if at_ns > above[0] and lag <= max(earlier)]
                there = [lag for at_ns, lag in lags if above[0] <= at_ns and (not back or at_ns < back[0])]
                to_ns = back[0] if back else None
                found[fault["id"], group] = round(max(earlier)), above[0], to_ns, round(max(there))
        return found

    def _stuck(self, fault: Row, group: str) -> Iterator[Row]:
        for send in self.oracle.sends:
            first, done = self.first(group, send), send["done_ns"]
            if send["outcome"] != "acked" or None in (first, done, fault["healed_ns"]):
                continue
            in_time = done <= fault["healed_ns"] - 5 * SECOND
            topics = self.history.subscriptions.get(group)
            assert topics is None or send["topic"] in topics, "nothing else is delivered in these histories"
            if in_time and first > fault["healed_ns"] and self.due(group, send):
                yield send
