"""What a group never had to read, in plain Python: docs/GLOSSARY.md, message by message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakes.histories import MS
from fakes.oracle_transactions import visible

if TYPE_CHECKING:
    from fakes.oracle import Oracle

Row = dict[str, Any]
Place = tuple[str, int]
_DURATIONS = {"by_duration:pt0.004s": 4 * MS, "by_duration:PT1M": 60_000 * MS}  # those of the histories


class Late:
    """One group's beginnings in a history."""

    def __init__(self, oracle: Oracle, group: str) -> None:
        self.oracle = oracle
        block = oracle.history.blocks.get(group, {})
        self.share = share = block.get("type") == "share"
        config = block.get("group-config" if share else "config", {})
        reset = config.get("share.auto.offset.reset" if share else "auto.offset.reset", "earliest")
        self.back_ns = 0 if reset in ("latest", "end", "largest") else _DURATIONS.get(reset)
        self.events = sorted(
            (e for e in oracle.events if e["group"] == group), key=lambda event: event["at_ns"]
        )
        self.deliveries = [d for d in oracle.deliveries if d["group"] == group]

    def position(self, at: Place) -> tuple[int | None, bool]:
        """The least offset from which on it is known to have read, and whether it began there."""
        assigned = self.assigned(at)
        told = [
            e["offset"] for e in assigned if e["at_ns"] == assigned[0]["at_ns"] and e["offset"] is not None
        ]
        here = [d for d in self.deliveries if _place(d) == at]
        commits = [e for e in self.events if e["kind"] == "committed" and _place(e) == at]
        known = [max(told)] if told else []
        known += [d["offset"] for d in here]
        if commits and all(commits[0]["at_ns"] < d["polled_ns"] for d in here):
            known.append(commits[0]["offset"])
        return min(known, default=None), bool(told) or (self.back_ns == 0 and bool(here))

    def assigned(self, at: Place) -> list[Row]:
        """The assignments of a partition, the first one first."""
        return [e for e in self.events if e["kind"] == "assigned" and _place(e) == at]

    def removed_to(self, at: Place) -> int | None:
        """Where the log begins now, if the group may have had a position below it, and begun anew."""
        starts = [
            e.get("start_offset") or 0 for e in self.oracle.history.rows["end_offsets"] if _place(e) == at
        ]
        least, _ = self.position(at) if self.back_ns is not None and not self.share else (None, False)
        return starts[0] if starts and least is not None and least < starts[0] else None

    def anew(self, at: Place) -> int:
        """Then: the first offset from there on that it was at."""
        start = self.removed_to(at)
        here = [r for r in (*self.deliveries, *self.events) if _place(r) == at and r["offset"] is not None]
        return min([r["offset"] for r in here if start is not None and r["offset"] >= start], default=1 << 60)

    def ruling(self, offset: int, send: Row, at: Place) -> str:
        """Whether a message that is stored there was `early`, `owed` to the group, or it cannot be known."""
        assert self.back_ns is not None
        least, sure = self.position(at)
        if self.removed_to(at) is not None:
            early = sure and least is not None and offset < least
            return "early" if early else "owed" if offset >= self.anew(at) else "unclear"
        if least is not None and offset >= least:
            return "owed"
        if sure:
            return "early"
        signs = [e["at_ns"] for e in self.events] + [d["polled_ns"] for d in self.deliveries]
        assigned = self.assigned(at)
        if not assigned and not signs:
            return "unclear"
        began = assigned[0]["at_ns"] if assigned else min(signs)
        if send["outcome"] == "acked" and send["done_ns"] < began // MS * MS - self.back_ns:
            return "early"
        others = any(e["kind"] == "assigned" and None not in _place(e) for e in self.events)
        dated = bool(assigned) or not others
        later = send["attempt_ns"] >= (began // MS + 1) * MS - self.back_ns
        return "owed" if dated and later else "unclear"

    def copy(self, send: Row) -> Row | None:
        """Where a message is stored first."""
        mine = [r for r in self.oracle.own if _who(r) == _who(send)]
        ordered = sorted(mine, key=lambda r: (not visible(r), r["offset"], *_place(r)))
        return ordered[0] if ordered and visible(ordered[0]) else None

    def early(self, sends: list[Row]) -> int:
        """How many of these, which are stored, were not for the group."""
        if self.back_ns is None:
            return 0
        copies = [(self.copy(send), send) for send in sends]
        return sum(self.ruling(r["offset"], s, _place(r)) == "early" for r, s in copies if r is not None)

    def start(self, at: Place) -> int:
        """From which offset on anything was for the group, as far as that is known."""
        if self.back_ns is None:
            return 0
        if self.removed_to(at) is not None:
            return min(self.anew(at), self.end(at))
        least, sure = self.position(at)
        if sure and least is not None:
            return least
        copies = [(self.copy(send), send) for send in self.oracle.sends]
        owed = [
            r["offset"]
            for r, s in copies
            if r is not None and _place(r) == at and self.ruling(r["offset"], s, at) == "owed"
        ]
        return int(min([*owed, self.end(at) if least is None else least]))

    def end(self, at: Place) -> int:
        """The offset after the last."""
        ends = [e["end_offset"] for e in self.oracle.history.rows["end_offsets"] if _place(e) == at]
        last = max([-1, *(r["offset"] for r in self.oracle.log if _place(r) == at)])
        return int(ends[0]) if ends else last + 1


def _place(row: Row) -> Place:
    return row["topic"], row["partition"]


def _who(row: Row) -> tuple[int, int]:
    return row["producer"], row["seq"]
