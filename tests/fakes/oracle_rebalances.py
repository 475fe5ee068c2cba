"""The rebalances of a group in plain Python: what docs/GLOSSARY.md says, by replaying every event anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakes.histories import History, at
from fakes.oracle_rows import Place, Row, place, spot

SECOND_NS = 1_000_000_000
END_NS = at(3_600_000)  # of every history


class Rebalances:
    """Those of one group of a history."""

    def __init__(self, history: History, group: str) -> None:
        mine = [e for e in history.rows["group_events"] if e["group"] == group]
        self.events = sorted(mine, key=lambda e: (e["at_ns"], e["kind"] == "assigned", e["kind"]))
        self.deliveries = [d for d in history.rows["deliveries"] if d["group"] == group]
        assigned = [e for e in self.events if e["kind"] == "assigned" and None not in place(e)]
        self.assigned, self.places = assigned, {place(e) for e in assigned}

    def owners(self, where: Place, upto: int) -> set[str]:
        """Who has a partition after so many events."""
        found: set[str] = set()
        for e in self.events[:upto]:
            if e["kind"] == "assigned" and place(e) == where:
                found.add(e["member"])
            elif takes(e, where):
                found.discard(e["member"])
        return found

    def changes(self) -> list[int]:
        """After which events owners are other than before."""
        numbers = range(1, len(self.events) + 1)
        return [n for n in numbers if any(self.owners(p, n) != self.owners(p, n - 1) for p in self.places)]

    def spans(self) -> list[list[int]]:
        """The changes of each rebalance, the group's end among them."""
        spans: list[list[int]] = []
        for n in self.changes():
            open_ = bool(spans) and not self.whole(spans[-1][-1])
            soon = bool(spans) and self.ns(n) - self.ns(spans[-1][-1]) <= SECOND_NS
            ends = self.is_end([n]) and not (spans and self.is_end(spans[-1]))
            if open_ or (soon and not ends):
                spans[-1].append(n)
            else:
                spans.append([n])
        return spans

    def ns(self, number: int) -> int:
        """When an event was."""
        return int(self.events[number - 1]["at_ns"])

    def whole(self, upto: int) -> bool:
        """Whether every partition that was assigned by then has an owner."""
        known = {place(e) for e in self.events[:upto] if e["kind"] == "assigned"} & self.places
        return all(self.owners(p, upto) for p in known)

    def expected(self) -> list[dict[str, Any]]:
        """What the findings must say."""
        return [self.told(span) for span in self.spans() if not self.is_end(span)]

    def told(self, span: Sequence[int]) -> dict[str, Any]:
        """One rebalance."""
        last = self.ns(span[-1])
        later = [one[0] for one in self.spans() if one[0] > span[-1] and self.is_end(one)]
        upto = later[0] - 1 if later else len(self.events)
        return {
            "started_ns": self.ns(span[0]),
            "ended_ns": last if self.whole(span[-1]) else None,
            "members": len(self.members(last + SECOND_NS, upto)),
            "unowned": sum(self.unowned_ns(p, span) for p in self.places) / SECOND_NS,
            "redelivered": len(self.redelivered(span)),
        }

    def members(self, by_ns: int, upto: int) -> set[str]:
        """Who had joined and was there yet, after so many events at most."""
        found: set[str] = set()
        for e in self.events[:upto]:
            if e["at_ns"] <= by_ns and e["kind"] in ("joined", "assigned"):
                found.add(e["member"])
            elif e["at_ns"] <= by_ns and e["kind"] in ("left", "killed"):
                found.discard(e["member"])
        return found

    def unowned_ns(self, where: Place, span: Sequence[int]) -> int:
        """How long nobody had a partition that somebody had had."""
        total = 0
        for n in range(span[0], len(self.events) + 1 if not self.whole(span[-1]) else span[-1]):
            had = any(self.owners(where, before) for before in range(n))
            until = self.ns(n + 1) if n < len(self.events) else END_NS
            total += (until - self.ns(n)) * (had and not self.owners(where, n))
        return total

    def redelivered(self, span: Sequence[int]) -> set[tuple[str, int, int]]:
        """Offsets handed out once more after it had assigned their partition."""
        moments = {(p, self.ns(n)) for n in span for p in self.places if self.gains(p, n)}
        return {
            spot(later)
            for later in self.deliveries
            for earlier in self.deliveries
            if spot(earlier) == spot(later)
            and (place(later), self.given(later)) in moments
            and self.given(earlier) < self.given(later)
        }

    def gains(self, where: Place, number: int) -> bool:
        """Whether an event gives somebody a partition that it did not have."""
        return bool(self.owners(where, number) - self.owners(where, number - 1))

    def given(self, delivery: Row) -> int:
        """When the partition was assigned last, by then, to a member that did not have it."""
        numbers = range(1, len(self.events) + 1)
        told = [self.ns(n) for n in numbers if self.gains(place(delivery), n)]
        return max([at_ns for at_ns in told if at_ns <= delivery["polled_ns"]], default=-1)

    def is_end(self, span: Sequence[int]) -> bool:
        """Whether the group's end begins here."""
        first, began = self.events[span[0] - 1]["kind"], self.ns(span[0])
        return (
            first in ("revoked", "lost", "left")
            and all(d["polled_ns"] < began for d in self.deliveries)
            and not any(e["kind"] in ("joined", "killed") and e["at_ns"] >= began for e in self.events)
        )


def takes(event: Row, where: Place) -> bool:
    """Whether the member has the partition no more after this event, if it had it."""
    if event["kind"] in ("left", "killed"):
        return True
    named = event["topic"] in (None, where[0]) and event["partition"] in (None, where[1])
    return event["kind"] in ("revoked", "lost") and named
