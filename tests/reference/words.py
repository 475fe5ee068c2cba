"""Names and numbers as Spark SQL has them."""

from __future__ import annotations

from collections.abc import Iterable

from kaput.analysis.names import SHIFT
from kaput.evidence.schemas import GROUP_EVENT_KINDS

KIND = {kind: number for number, kind in enumerate(GROUP_EVENT_KINDS, 1)}  # of group_events
PLACE = f"CASE WHEN partition >= 0 THEN topic * {SHIFT}L + partition END AS place"


def listed(words: Iterable[str]) -> str:
    """Texts as literals of Spark SQL, separated by commas."""
    return ", ".join(quoted(word) for word in words)


def quoted(text: str) -> str:
    """Text as a literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
