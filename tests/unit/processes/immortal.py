"""Run as the first process of a namespace of its own, which no signal from inside can end: a process that
outlives SIGKILL. Its child owns and reaps; prints the records that are left after the reaper and an owner.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from kaput.processes.ending import reap_orphans
from kaput.processes.ownership import Owner
from kaput.processes.records import ProcessRecord, StartedProcess, all_records, start_of


def main(directory: Path) -> None:
    """A dead owner's record that names the immortal one, and a living owner's."""
    immortal = StartedProcess(1, start_of(1) or "", "immortal")
    record = ProcessRecord.create()
    dead = ProcessRecord(record.path.rename(record.path.with_name("4194304-0-0")))
    directory.mkdir()
    dead.add_process(immortal)
    dead.add_path(directory)
    began = time.monotonic()
    reap_orphans()
    assert time.monotonic() - began < 30
    sys.stdout.write(f"{[r.path.name for r in all_records()] == ['4194304-0-0']} {directory.exists()}\n")
    with Owner() as owner:
        owner._record.add_process(immortal)
    sys.stdout.write(f"{[s.name for r in all_records() for s in r.processes()]}\n")


if __name__ == "__main__":
    if os.getpid() == 1:
        sys.exit(subprocess.run([sys.executable, *sys.argv], check=False).returncode)
    main(Path(sys.argv[1]))
