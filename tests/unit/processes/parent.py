"""A kaput-like parent for the tests: owns children and a directory, says so, and waits for its end."""

import signal
import sys
import time
from pathlib import Path

from kaput.errors import Interrupted
from kaput.processes.ownership import Owner
from kaput.processes.signals import interrupts

# A child that outlives SIGTERM and has a child of its own.
_STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]).pid, flush=True)
time.sleep(300)
"""


def main(directory: Path) -> None:
    """Prints the ids of the guardian and of all children, one of them stopped; sleeps until it is ended."""
    with interrupts(), Owner() as owner:
        owner.own_path(directory).mkdir()
        sleepers = [owner.spawn(["sleep", "300"], name=f"sleeper-{n}") for n in range(3)]
        stubborn = owner.spawn([sys.executable, "-c", _STUBBORN], name="stubborn", stdout=-1)
        assert stubborn.popen.stdout is not None
        grandchild = int(stubborn.popen.stdout.readline())
        sleepers[0].signal(signal.SIGSTOP)
        pids = [owner._guardian.pid, *(p.pid for p in [*sleepers, stubborn]), grandchild]
        sys.stdout.write(" ".join(map(str, pids)) + "\n")
        sys.stdout.flush()
        time.sleep(300)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except Interrupted as stop:
        sys.exit(stop.exit_status)
