"""What single rows of the evidence say, for the oracle: of whom, of what, and whose it was."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]
Place = tuple[str, int]


def skips(log: list[Row], one: Row, two: Row) -> bool:
    """Whether the log holds anything strictly between two deliveries."""
    return any(place(r) == place(one) and one["offset"] < r["offset"] < two["offset"] for r in log)


def concerns(event: Row, delivery: Row) -> bool:
    """Whether an event is of what the member of a delivery owns of its partition.

    Where no partition is named, nothing is assigned; revoked and lost is everything (of a topic, if named).
    """
    if event["member"] != delivery["member"]:
        return False
    if event["kind"] in ("left", "killed"):
        return True
    if event["kind"] not in ("assigned", "revoked", "lost"):
        return False
    if None not in place(event):
        return place(event) == place(delivery)
    return event["kind"] != "assigned" and event["topic"] in (None, delivery["topic"])


def sought(seek: Row, delivery: Row) -> bool:
    """Whether a seek is of the partition of a delivery to its member, or of all (of the topic)."""
    if seek["member"] != delivery["member"]:
        return False
    if None not in place(seek):
        return place(seek) == place(delivery)
    return seek["topic"] in (None, delivery["topic"])


def owned_before(events: list[Row], delivery: Row) -> list[tuple[Row, bool]]:
    """The events that concern a delivery, in order, and whether its member had the partition before each."""
    mine = [e for e in events if concerns(e, delivery)]
    mine.sort(key=lambda e: (e["at_ns"], e["kind"] == "assigned"))
    return [(e, number > 0 and mine[number - 1]["kind"] == "assigned") for number, e in enumerate(mine)]


def decided(commits: list[Row], by_ns: int) -> int:
    """The group's offset by the last of these commits; the least of those that may be."""
    before = [c for c in commits if c["at_ns"] < by_ns]
    last_ns = max((c["at_ns"] for c in before), default=None)
    if last_ns is None:
        return 0
    least: int = min(c["offset"] for c in commits if c["at_ns"] in (last_ns, by_ns))
    return least


def who(row: Row) -> tuple[int, int]:
    return row["producer"], row["seq"]


def place(row: Row) -> Place:
    return row["topic"], row["partition"]


def spot(row: Row) -> tuple[str, int, int]:
    """The offset in its partition."""
    return row["topic"], row["partition"], row["offset"]


def named(row: Row) -> bool:
    """Whether a record is known to be a message."""
    return row["intact"] and row["producer"] is not None and row["seq"] is not None
