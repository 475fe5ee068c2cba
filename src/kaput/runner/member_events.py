"""Phases of rebalances as events, from what group members record during the run."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kaput.evidence.tails import StreamTail
from kaput.faults.event_triggers import Occurrence
from kaput.scenario.events import GROUP_EVENTS

_COLUMNS = ("group", "member", "kind", "at_ns")


class MemberEvents:
    """Reads the streams of the table group_events in `folder`."""

    events = GROUP_EVENTS

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tails: dict[Path, StreamTail] = {}

    def take(self) -> list[Occurrence]:
        """One event per member and callback, regardless of the number of partitions. Raises OSError."""
        for path in self._folder.glob("*.arrows"):
            if path not in self._tails:
                self._tails[path] = StreamTail(os.open(path, os.O_RDONLY), _COLUMNS)
        noticed, found = time.time_ns(), dict[tuple[str, ...], Occurrence]()
        for tail in self._tails.values():
            for batch in tail.take():
                for row in batch.to_pylist():
                    name, member = f"partitions-{row['kind']}", row["member"]
                    if name in GROUP_EVENTS:
                        found.setdefault(
                            (name, row["group"], member),
                            Occurrence(name, (row["group"],), member, row["at_ns"], noticed),
                        )
        return list(found.values())

    def close(self) -> None:
        """Closes the files."""
        for tail in self._tails.values():
            tail.close()
