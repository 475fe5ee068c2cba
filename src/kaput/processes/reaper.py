"""The reaper: at the next start, ends what a killed kaput left behind if its guardian was killed too."""

from __future__ import annotations

from kaput.processes.ending import end_leftovers
from kaput.processes.records import all_records


def reap_orphans() -> list[str]:
    """Cleans up after every dead owner; returns the names of the processes that were still running.

    Touches a process only if its id and start time, or its marker, are those of a dead owner.
    """
    ended = []
    for record in all_records():
        if record.owner_gone():
            ended += end_leftovers(record)
    return ended
