"""What became of messages that stores kept, in plain Python: the definitions of docs/GLOSSARY.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fakes.oracle_rows import Row, place, who
from fakes.oracle_transactions import visible

if TYPE_CHECKING:
    from fakes.oracle import Oracle

_TABLES = ("kept", "replayed", "left_in_store")


class Stores:
    """The stores of a history."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.rows = oracle, oracle.history.rows
        self.read = oracle.history.stores

    def had(self, send: Row) -> set[str]:
        """The stores that any row says had the message."""
        return {row["store"] for table in _TABLES for row in self.rows[table] if who(row) == who(send)}

    def has(self, send: Row) -> bool:
        """Whether a store still has it."""
        return any(who(row) == who(send) for row in self.rows["left_in_store"])

    def is_kept(self, send: Row) -> bool:
        """Whether it was not acknowledged, and a store had it."""
        return send["outcome"] != "acked" and (send["outcome"] == "kept" or bool(self.had(send)))

    def in_doubt(self, send: Row) -> bool:
        """Whether Kafka may have stored it before."""
        rows = [row for row in self.rows["kept"] if who(row) == who(send)]
        return bool(self.had(send)) and (not rows or any(row["in_doubt"] for row in rows))

    def fate(self, send: Row) -> str:
        """What became of a kept message."""
        if self.oracle.copies[who(send)]:
            return "delivered_later"
        if self.has(send):
            return "waiting"
        places = self.oracle.places_of(self.oracle.mirrors.home(send))
        if not places or not places <= self.oracle.read_to_end:
            return "unclear"
        asked = self.had(send) or set(self.read)
        listed = bool(asked) and all(self.read.get(store, False) for store in asked)
        return "lost_in_store" if listed else "unclear"

    def fates(self) -> dict[str, int]:
        """How many kept messages met which."""
        return dict(Counter(self.fate(send) for send in self.oracle.sends if self.is_kept(send)))

    def fates_at(self, store: str) -> dict[str, int]:
        """The same of those that one store had."""
        mine = [send for send in self.oracle.sends if self.is_kept(send) and store in self.had(send)]
        return dict(Counter(map(self.fate, mine)))

    def lost_after_replay(self) -> int:
        """How many of those that are lost were acknowledged to a replay."""
        acked = {who(row) for row in self.rows["replayed"]}
        lost = [s for s in self.oracle.sends if self.is_kept(s) and self.fate(s) == "lost_in_store"]
        return sum(who(send) in acked for send in lost)

    def duplicates(self) -> tuple[int, int]:
        """Messages that a store had and that are stored more than once; how many of them are permitted."""
        twice = [s for s in self.oracle.sends if self.oracle.copies[who(s)] > 1 and self.had(s)]
        return len(twice), sum(self.in_doubt(s) and self.by_replay(s) <= 1 for s in twice)

    def by_replay(self, send: Row) -> int:
        """How many of its copies, in whatever partitions, are certain to be replays'."""
        rows = self.rows["replayed"]
        done = [max(s["attempt_ns"], s["done_ns"] or 0) for s in self.oracle.sends]
        if not rows or min(row["at_ns"] for row in rows) <= max(done):
            return 0
        shown = [r for r in self.oracle.records if visible(r) and who(r) in self.oracle.sent]
        own = [
            r for r in shown if any(who(row) == who(r) for row in rows) and self.oracle.copies[who(r)] == 1
        ]
        copies = [r for r in shown if who(r) == who(send)]
        return sum(any(place(o) == place(r) and o["offset"] <= r["offset"] for o in own) for r in copies)

    def reordered(self) -> int:
        """Messages that a store had and that are behind a later one of their producer."""
        return sum(bool(self.had(self.oracle.sent[one])) for one in self.oracle.reordered())

    def told(self) -> dict[str, object]:
        """All of it, as far as it can be added up over histories."""
        everywhere = {row["store"] for table in _TABLES for row in self.rows[table]} | set(self.read)
        left = [s for s in self.oracle.sends if self.oracle.copies[who(s)] and self.has(s)]
        kept = [send for send in self.oracle.sends if self.is_kept(send)]
        return {
            "fates": self.fates(),
            "stores": {store: self.fates_at(store) for store in everywhere if self.fates_at(store)},
            "lost after replay": self.lost_after_replay(),
            "in doubt": sum(map(self.in_doubt, kept)),
            "without a row": sum(not self.had(send) for send in kept),
            "stored and left": len(left),
            "duplicates": self.duplicates()[0],
            "reordered": self.reordered(),
        }
