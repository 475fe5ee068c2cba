"""Phrases for the sentences of examples: messages, partitions, offsets and times."""

from __future__ import annotations

from kaput.analysis.engine.question import Row
from kaput.core import clock


def message(row: Row, prefix: str = "") -> str:
    """A message by its producer and number."""
    return f"producer {row[prefix + 'producer']}'s message {row[prefix + 'seq']:,}"


def at(row: Row) -> str:
    """The partition of a case, and its offset if known."""
    if row.get("partition") is None:
        return f"{row['topic']}, partition unknown"
    place = f"{row['topic']}/{row['partition']}"
    return place if row.get("offset") is None else f"{place} offset {row['offset']:,}"


def poll(row: Row) -> str:
    """Which member received what, and when."""
    return f"member {row['member']} received {at(row)} at {clock(row['at_ns'])}"
