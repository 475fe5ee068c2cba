"""Cases in words: messages, places and times in words."""

from __future__ import annotations

from datetime import UTC, datetime

from kaput.analysis.engine.question import Row


def clock(at_ns: int | None) -> str:
    """A time of day in UTC, to the millisecond."""
    if at_ns is None:
        return "an unknown time"
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC)
    return f"{moment:%H:%M:%S}.{at_ns // 1_000_000 % 1000:03d}"


def message(row: Row, prefix: str = "") -> str:
    """Whose message, and which."""
    return f"producer {row[prefix + 'producer']}'s message {row[prefix + 'seq']:,}"


def at(row: Row) -> str:
    """Its partition, as far as that is known, and its offset."""
    if row.get("partition") is None:
        return f"{row['topic']}, partition unknown"
    place = f"{row['topic']}/{row['partition']}"
    return place if row.get("offset") is None else f"{place} offset {row['offset']:,}"


def poll(row: Row) -> str:
    """Who received what, and when."""
    return f"member {row['member']} received {at(row)} at {clock(row['at_ns'])}"
