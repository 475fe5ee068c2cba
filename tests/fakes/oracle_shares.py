"""What share groups did, in plain Python: the definitions of docs/GLOSSARY.md, record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakes.histories import MS, History

Row = dict[str, Any]
Spot = tuple[str, int, int]
_KAFKAS_LIMIT = 5
_SETTLING = ("accepting", "accepted", "rejecting", "rejected")


class Shares:
    """One group's part in a history."""

    def __init__(self, history: History, group: str) -> None:
        self.events = [e for e in history.rows["share_events"] if e["group"] == group]
        block = history.blocks.get(group, {})
        self.is_share_group = bool(self.events) or block.get("type") == "share"
        self.drained = history.groups.get(group, False)
        # Of a group that the scenario does not have nobody knows the limit.
        limit = block.get("group-config", {}).get("share.delivery.count.limit", _KAFKAS_LIMIT)
        self.limit: int | None = limit if group in history.groups else None
        lock_ms = block.get("group-config", {}).get("share.record.lock.duration.ms", 30_000)
        self.lock_ns = lock_ms * MS
        self.ends = [
            e for e in history.rows["group_events"] if e["group"] == group and e["kind"] in ("left", "killed")
        ]
        self.stored = {_spot(record) for record in history.rows["log"]}
        self.led = [e for e in history.rows["cluster_events"] if e["kind"] == "leader"]

    def counts(self) -> dict[str, int]:
        """The anomalies of share groups."""
        return {name: len(cases) for name, cases in self.cases().items()}

    def cases(self) -> dict[str, set[Spot]]:
        """The stored records of which each is."""
        spots = {_spot(event) for event in self.events} & self.stored
        return {
            name: {s for s in spots if self.is_odd(name, [e for e in self.events if _spot(e) == s])}
            for name in ("double-accept", "delivered-after-accept", "over-delivered", "lost-release")
        }

    def is_odd(self, name: str, rows: list[Row]) -> bool:
        """Whether the events of one record are a case of that anomaly."""
        odd: dict[str, Callable[[list[Row]], bool]] = {
            "double-accept": lambda rows: len(_of(rows, "accepted")) > 1,
            "delivered-after-accept": self._after_accept,
            "over-delivered": self._over,
            "lost-release": lambda rows: self.drained and self._lost(rows),
        }
        return odd[name](rows)

    def _after_accept(self, rows: list[Row]) -> bool:
        """Handed out after the first accept, not only learned of: a leader counts upward."""
        first_ns = min((row["at_ns"] for row in _of(rows, "accepted")), default=None)
        if first_ns is None:
            return False
        before = [row for row in _of(rows, "acquired") if row["at_ns"] <= first_ns]
        counts = [row["delivery_count"] for row in before if row["delivery_count"] is not None]
        leader = max((self._leader(row) for row in before), default=0)
        for row in _of(rows, "acquired"):
            count = row["delivery_count"]
            smaller = bool(counts) and count is not None and count < max(counts)
            if row["at_ns"] > first_ns and not (smaller and self._leader(row) == leader):
                return True
        return False

    def _leader(self, row: Row) -> int:
        """How many elections the partition had had by then."""
        mine = [e for e in self.led if (e["topic"], e["partition"]) == (row["topic"], row["partition"])]
        return sum(e["at_ns"] <= row["at_ns"] for e in sorted(mine, key=lambda e: e["at_ns"])[1:])

    def _over(self, rows: list[Row]) -> bool:
        counts = [row["delivery_count"] for row in _of(rows, "acquired")]
        return self.limit is not None and any(n is not None and n > self.limit for n in counts)

    def _lost(self, rows: list[Row]) -> bool:
        handed = _of(rows, "acquired")
        if not handed or _of(rows, "accepted") or _of(rows, "rejected"):
            return False
        last_ns = max(row["at_ns"] for row in handed)
        if any(row["at_ns"] >= last_ns for kind in _SETTLING for row in _of(rows, kind)):
            return False
        counts = [row["delivery_count"] for row in handed if row["at_ns"] == last_ns]
        known = [n for n in counts if n is not None]
        if not known or self.limit is None:
            return False
        return bool(max(known) + self._unnoticed(rows, last_ns) < self.limit)

    def _unnoticed(self, rows: list[Row], last_ns: int) -> int:
        """How many members may have been handed the record after that unrecorded: those that were killed
        when it had no owner any more.
        """
        holder = min(row["member"] for row in _of(rows, "acquired") if row["at_ns"] == last_ns)
        asks = [row["at_ns"] for kind in ("releasing", "released") for row in _of(rows, kind)]
        freed = [last_ns + self.lock_ns, *(at_ns for at_ns in asks if at_ns >= last_ns)]
        ends = [e for e in self.ends if e["at_ns"] >= last_ns]
        back = [*freed, *(e["at_ns"] for e in ends if e["member"] == holder)]
        return len(
            {
                e["member"]
                for e in ends
                if e["kind"] == "killed" and e["at_ns"] >= min(freed if e["member"] == holder else back)
            }
        )


def _of(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def _spot(row: Row) -> Spot:
    return row["topic"], row["partition"], row["offset"]
