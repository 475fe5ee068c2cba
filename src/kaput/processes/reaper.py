"""The reaper: ends, at the next start, what a killed kaput left behind when its guardian was killed too."""

from __future__ import annotations

from kaput.processes.ending import end_leftovers
from kaput.processes.records import all_records


def reap_orphans() -> list[str]:
    """Cleans up after every owner that is gone; the names of the processes that were still running.

    A process is touched only when its id and its start, or its marker, are those of a dead owner.
    """
    ended = []
    for record in all_records():
        if record.owner_gone():
            ended += end_leftovers(record)
    return ended
