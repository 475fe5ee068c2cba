"""The guardian: a separate process that ends everything kaput owned if kaput is killed with SIGKILL.

It reads a pipe from its owner. A goodbye means that the owner has cleaned up; end of file without one means
that the owner is dead. Not here: cleaning up after a killed guardian (ending.py, at the next start).
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
    """Waits for the owner to end, then cleans up after it unless it ended normally."""
    # Ends only with its owner: not with a closing terminal, nor by a signal to all of the user's processes.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    received = b""
    while chunk := os.read(0, 64):
        received += chunk
    if GOODBYE not in received:
        end_leftovers(ProcessRecord(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
