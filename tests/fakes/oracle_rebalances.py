"""The rebalances of a group in plain Python: what docs/GLOSSARY.md says, by replaying every event anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakes.histories import History, at
from fakes.oracle_rows import Place, Row, owned_before, place, spot

SECOND_NS = 1_000_000_000
END_NS = at(3_600_000)  # of every history


class Rebalances:
    """Those of one group of a history."""

    def __init__(self, history: History, group: str) -> None:
        mine = [e for e in history.rows["group_events"] if e["group"] == group]
        self.events = sorted(mine, key=lambda e: (e["at_ns"], e["kind"] == "assigned", e["kind"]))
        self.group, self.pauses = (
            group,
            [f for f in history.rows["faults"] if f["fault"] == "pause" and f["bit"]],
        )
        self.deliveries = [d for d in history.rows["deliveries"] if d["group"] == group]
        assigned = [e for e in self.events if e["kind"] == "assigned" and None not in place(e)]
        self.assigned, self.places = assigned, {place(e) for e in assigned}

    def owners(self, where: Place, upto: int) -> set[str]:
        """Who has a partition after so many events: one member at most, the one that was given it last."""
        found: set[str] = set()
        for e in self.events[:upto]:
            if e["kind"] == "assigned" and place(e) == where:
                found = {e["member"]}
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
        return int(self.events[number - 1]["at_ns"])

    def whole(self, upto: int) -> bool:
        """Whether every partition that was assigned by then has an owner."""
        known = {place(e) for e in self.events[:upto] if e["kind"] == "assigned"} & self.places
        return all(self.owners(p, upto) for p in known)

    def expected(self) -> list[dict[str, Any]]:
        """What the findings must say."""
        return [self.told(span) for span in self.spans() if not self.is_end(span)]

    def told(self, span: Sequence[int]) -> dict[str, Any]:
        last = self.ns(span[-1])
        later = [one[0] for one in self.spans() if one[0] > span[-1] and self.is_end(one)]
        upto = later[0] - 1 if later else len(self.events)
        return {
            "started_ns": min([self.ns(span[0]), *(self.lost_ns(p, n) for p, n in self.taken(span))]),
            "ended_ns": last if self.whole(span[-1]) else None,
            "members": len(self.members(last + SECOND_NS, upto)),
            "unowned": sum(self.unowned_ns(p, span) for p in self.places) / SECOND_NS,
            "redelivered": len(self.redelivered(span)),
            "resumed_ns": max((at_ns for at_ns in self.read(span).values() if at_ns), default=None),
            "unresumed_partitions": sum(at_ns is None for at_ns in self.read(span).values()),
        }

    def taken(self, span: Sequence[int]) -> list[tuple[Place, int]]:
        """Partitions given to a member while another had them, and by which event."""
        return [(p, n) for n in span for p in self.places if self.gains(p, n) and self.owners(p, n - 1)]

    def lost_ns(self, where: Place, number: int) -> int:
        """Since when the owner before could not work on it: since it was frozen, if it was."""
        (owner,), until = self.owners(where, number - 1), self.ns(number)
        given = max(n for n in range(1, number) if self.gains(where, n))
        slot = "member " + owner.removeprefix("member-").split(".")[0]
        frozen = [f["effective_ns"] for f in self.pauses if f["target"] == f"{slot} of {self.group}"]
        return max([at_ns for at_ns in frozen if self.ns(given) <= at_ns <= until], default=until)

    def read(self, span: Sequence[int]) -> dict[Place, int | None]:
        """Of each partition that had an owner before it and was given to a member in it: the first
        delivery to the last of those, before it was given away again.
        """
        found: dict[Place, int | None] = {}
        for n in span:
            for p in self.places:
                if self.gains(p, n) and any(self.owners(p, before) for before in range(span[0])):
                    new = self.events[n - 1]["member"]
                    mine = [d for d in self.deliveries if place(d) == p and d["member"] == new]
                    first = [d["polled_ns"] for d in mine if self.given(d) == self.ns(n) and self.has(d)]
                    found[p] = min(first, default=None)
        return found

    def has(self, delivery: Row) -> bool:
        """Whether its member has the partition by its own events, before or after what happened then."""
        then = delivery["polled_ns"]
        past = [e for e, _ in owned_before(self.events, delivery) if e["at_ns"] <= then]
        before = [e["kind"] for e in past if e["at_ns"] < then]
        return before[-1:] == ["assigned"] or "assigned" in [e["kind"] for e in past if e["at_ns"] == then]

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
        """How long partitions that had had an owner had none."""
        total = 0
        for n in range(span[0], len(self.events) + 1 if not self.whole(span[-1]) else span[-1]):
            had = any(self.owners(where, before) for before in range(n))
            until = self.ns(n + 1) if n < len(self.events) else END_NS
            total += (until - self.ns(n)) * (had and not self.owners(where, n))
        return total + sum(self.ns(n) - self.lost_ns(p, n) for p, n in self.taken(span) if p == where)

    def redelivered(self, span: Sequence[int]) -> set[tuple[str, int, int]]:
        """Offsets handed out once more after it had assigned their partition, not committed by then."""
        moments = {(p, self.ns(n)) for n in span for p in self.places if self.gains(p, n)}
        return {
            spot(later)
            for later in self.deliveries
            for earlier in self.deliveries
            if spot(earlier) == spot(later)
            and (place(later), self.given(later)) in moments
            and self.given(earlier) < self.given(later)
            and later["offset"] >= self.committed(place(later), self.given(later))
        }

    def committed(self, where: Place, before_ns: int) -> int:
        """The highest offset that the group had committed there by then."""
        mine = [e for e in self.events if e["kind"] == "committed" and place(e) == where]
        return max(
            [e["offset"] for e in mine if e["at_ns"] < before_ns and e["offset"] is not None], default=0
        )

    def gains(self, where: Place, number: int) -> bool:
        """Whether an event gives a member a partition that it did not have."""
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
