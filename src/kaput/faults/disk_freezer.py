"""The process that freezes disks for disk_stall.py, and thaws them when its stdin ends, for whatever reason.

`python -m kaput.faults.disk_freezer DIRECTORY...`: each must be a mount point. A line of JSON when they are
frozen and a write to each has been tried for a while, and one when they are thawed. It is kaput's own child,
but its guardian does not end it: what it has frozen could not be killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from kaput.faults.ballast import PROBE
from kaput.processes.mounts import freeze, thaw

_TRIED_S = 0.5  # how long a write is watched before it counts as stalled
_RETURN_S = 10.0  # a write must return that soon after the thaw


class _Write(threading.Thread):
    """One write to a directory, and when it returned (ns; None: not yet)."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._path = directory / PROBE
        self.returned_ns: int | None = None

    def run(self) -> None:
        self._path.write_bytes(b"x")
        self.returned_ns = time.time_ns()
        self._path.unlink()


def main(directories: list[Path]) -> None:
    """Freezes, waits for the end of stdin, thaws."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    frozen: list[Path] = []
    try:
        # From the first moment of a freeze no write begins; it then waits for those under way.
        frozen_ns = time.time_ns()
        for directory in directories:
            freeze(directory)
            frozen.append(directory)
        writes = [_Write(directory) for directory in directories]
        for write in writes:
            write.start()
        time.sleep(_TRIED_S)
        _print(frozen_ns=frozen_ns, stalled=[write.returned_ns is None for write in writes])
        sys.stdin.buffer.read()
    except OSError as error:
        _print(error=str(error))
        return
    finally:
        thawing_ns = time.time_ns()
        for directory in frozen:
            thaw(directory)
    thawed_ns = time.time_ns()
    for write in writes:
        write.join(_RETURN_S)
    _print(thawing_ns=thawing_ns, thawed_ns=thawed_ns, returned_ns=[write.returned_ns for write in writes])


def _print(**what: object) -> None:
    with suppress(OSError):  # kaput is gone
        print(json.dumps(what), flush=True)  # noqa: T201 - disk_stall.py reads it


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
    sys.stdout.flush()
    os._exit(0)  # a write that never returned would be waited for
