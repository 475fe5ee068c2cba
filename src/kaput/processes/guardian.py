"""The guardian: a process of its own that ends all that kaput owned, should kaput be killed with SIGKILL.

It holds the reading end of a pipe. A goodbye means that the owner has cleaned up; an end without one means
that the owner is dead. Not here: what a killed guardian leaves (reaper.py, at the next start).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kaput.processes.ending import end_leftovers
from kaput.processes.records import ProcessRecord

GOODBYE = b"goodbye"


def main(record: Path) -> None:
    """Waits for the owner's end, then cleans up after it unless it ended normally."""
    # Only the owner's end ends it: not a closing terminal, not a signal to everything of this user.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    received = b""
    while chunk := os.read(0, 64):
        received += chunk
    if GOODBYE not in received:
        end_leftovers(ProcessRecord(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
