"""Cases in words: messages, places and times in words."""

from __future__ import annotations

from kaput.analysis.engine.question import Row
from kaput.core import clock


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
