"""Runs a command, waits for it and for all that it leaves behind, and says what they used.

Processes whose parent has ended become this one's (PR_SET_CHILD_SUBREAPER), so that RUSAGE_CHILDREN holds the
CPU seconds of every one of them in the end; waited/sitecustomize.py sees to those that nobody would wait for.
Run as: subreaper.py COMMAND...; the report is the last line on stderr.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PROCESSES_MAX = 1_000_000


def main(command: list[str]) -> None:
    """Wall seconds end with the command itself, CPU seconds are those of everything."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed: this needs Linux")
    theirs = os.environ.get("PYTHONPATH")
    paths = [str(Path(__file__).with_name("waited")), *([theirs] if theirs else [])]
    started = time.monotonic()
    first = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}).pid
    status, wall_s = -1, 0.0
    for _ in range(_PROCESSES_MAX):
        try:
            pid, how = os.wait()
        except ChildProcessError:
            break
        if pid == first:
            status, wall_s = os.waitstatus_to_exitcode(how), time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = {"status": status, "wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime}
    sys.stderr.write("\n" + json.dumps(report) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
