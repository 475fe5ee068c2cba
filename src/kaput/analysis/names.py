"""Numbers for names: topics, groups and members as small integers, partitions as one long.

Spark groups, sorts and joins by numbers several times faster than by text. The driver keeps the names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kaput.evidence.schemas import GROUP_EVENT_KINDS

SHIFT = 2**32  # a place is topic * 2**32 + partition

Place = tuple[str, int]  # (topic, partition)
KIND = {kind: number for number, kind in enumerate(GROUP_EVENT_KINDS, 1)}  # of group_events


@dataclass(frozen=True)
class Names:
    """Every name's number is its position."""

    topics: Sequence[str]
    groups: Sequence[str]
    members: Sequence[str]

    def place(self, code: int | None) -> Place | None:
        """The partition behind a number."""
        return None if code is None else (self.topics[code // SHIFT], code % SHIFT)

    def code(self, place: Place) -> int:
        """The number of a partition."""
        return self.topics.index(place[0]) * SHIFT + place[1]


PLACE = f"CASE WHEN partition >= 0 THEN topic * {SHIFT}L + partition END AS place"


def listed(words: Iterable[str]) -> str:
    """Texts as literals of Spark SQL, separated by commas."""
    return ", ".join(quoted(word) for word in words)


def quoted(text: str) -> str:
    """Text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
