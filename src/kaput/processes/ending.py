"""Ends processes: gracefully those of a living owner, with SIGKILL those of a dead one.

ownership.py and guardian.py end processes only through this; `reap_orphans` does so at the next start, for
an owner that was killed together with its guardian.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from kaput.processes.mounts import unmount
from kaput.processes.records import MARKER, OWNER_NAME, ProcessRecord, StartedProcess, all_records, start_of

if TYPE_CHECKING:
    from kaput.processes.ownership import OwnedProcess

GRACE_S = 5.0
KILL_TIMEOUT_S = 10.0
_POLL_S = 0.02


def end_gracefully(processes: Sequence[OwnedProcess]) -> list[StartedProcess]:
    """Ends all at the same time: SIGTERM, a bounded wait, SIGKILL. Stopped ones get SIGCONT. Descendants that
    outlive their parent get a SIGKILL: nothing else would end them. Returns those that still exist
    KILL_TIMEOUT_S later; they are not on record.
    """
    descendants = [started for process in processes for started in _descendants(process.pid)]
    for process in processes:
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)
    if not _wait(lambda: not any(p.running for p in processes), GRACE_S):
        for process in processes:
            process.signal(signal.SIGKILL)
        _wait(lambda: not any(p.running for p in processes), KILL_TIMEOUT_S)
    for started in descendants:
        _kill(started)
    _wait(lambda: not any(started.running() for started in descendants), KILL_TIMEOUT_S)
    return [started for started in descendants if started.running()]


def end_leftovers(record: ProcessRecord) -> list[str]:
    """SIGKILLs everything a dead owner left, removes its directories and its record; returns the processes'
    names. Also ends processes that carry the owner's marker: one may have been started but not yet recorded,
    or be the child of a child. Repeats until two scans find nothing, because a dying parent can still fork.
    Keeps the record, for the next start to retry, if a process still exists after KILL_TIMEOUT_S (stuck in
    the kernel, or with another owner).
    """
    ended = _end_all(lambda: _leftovers(record))
    close(record, kept=bool(_leftovers(record)))
    return [started.name for started in ended]


def end_strays(record: ProcessRecord) -> list[StartedProcess]:
    """SIGKILLs what a living owner's processes left running, in any session; returns them. Call it when those
    processes are gone. A stray is recognized only by the owner's name in its environment: one started with an
    environment of its own (env -i, sudo, docker) is not.
    """
    return _end_all(lambda: list(_carrying(OWNER_NAME, record.name)))


def _end_all(find: Callable[[], list[StartedProcess]]) -> list[StartedProcess]:
    """SIGKILLs what `find` returns until two scans find nothing, for at most KILL_TIMEOUT_S."""
    ended: dict[int, StartedProcess] = {}
    quiet, limit = 0, time.monotonic() + KILL_TIMEOUT_S
    while quiet < 2 and time.monotonic() < limit:
        left = find()
        for started in left:
            _kill(started)
            ended[started.pid] = started
        quiet = 0 if left else quiet + 1
        time.sleep(_POLL_S)
    return list(ended.values())


def close(record: ProcessRecord, kept: bool) -> None:
    """Removes the record's directories, then the record unless `kept` or a directory remains."""
    removed = [remove_tree(path) for path in record.paths()]
    if not kept and all(removed):
        record.remove()


def remove_tree(path: Path) -> bool:
    """Removes a directory; returns whether it is gone. Retries: a dying process may still write to it."""
    unmount(path)
    for _ in range(3):
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return True
        time.sleep(_POLL_S)
    return False


def _leftovers(record: ProcessRecord) -> list[StartedProcess]:
    running = {started.pid: started for started in record.processes() if started.running()}
    for started in _carrying(MARKER, record.marker):
        running.setdefault(started.pid, started)
    return list(running.values())


def _carrying(variable: str, value: str) -> Iterable[StartedProcess]:
    """Processes with that variable in their environment."""
    for process in psutil.process_iter():
        if process.pid == os.getpid():
            continue
        try:
            if process.environ().get(variable) != value:
                continue
            name = process.name()
        except (psutil.Error, OSError):
            continue  # another user's, or gone
        start = start_of(process.pid)
        if start is not None:
            yield StartedProcess(process.pid, start, name)


def _descendants(pid: int) -> list[StartedProcess]:
    try:
        children = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    starts = ((child.pid, start_of(child.pid)) for child in children)
    return [StartedProcess(child, start, "descendant") for child, start in starts if start is not None]


def _kill(started: StartedProcess) -> None:
    try:
        if started.running():
            os.kill(started.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    limit = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= limit:
            return False
        time.sleep(_POLL_S)
    return True


def reap_orphans() -> list[str]:
    """Cleans up after every dead owner; returns the names of the processes that were still running. Touches a
    process only if its id and start time, or its marker, are those of a dead owner.
    """
    ended = []
    for record in all_records():
        if record.owner_gone():
            ended += end_leftovers(record)
    return ended
