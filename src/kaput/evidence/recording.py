"""Locks a run folder while it is recorded: a lock on RUN_DIR/.recording, shared by writers, exclusive for
sealing.

It is a flock(2), which ends with its holder, even by SIGKILL; exec closes the descriptor, so programs started
by a writer do not hold it. A forked child shares its parent's lock until the parent releases it. The file has
a line per holder, in order, which is only used for messages. recorder.py and attempts.py hold it, the runner
for the whole run, and sealing.py exclusively.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kaput.errors import EvidenceError, StillRecording

NAME = ".recording"
PATIENCE_S = 10.0  # for clients that briefly outlive a killed kaput, or for another process that is sealing
SEALING = "sealing"
_SINCE = "%Y-%m-%dT%H:%M:%SZ"
_PID_REUSE_S = 60.0  # a process that started this long after its line did not write it
_UNWRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


class RecordingLock:
    """A lock held until `release`, the end of the block, or the end of the process."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor, self._pid = path, descriptor, os.getpid()

    def release(self) -> None:
        """Releases the lock. Safe to call twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        # A forked child shares the lock: it may close its descriptor, but must not unlock.
        if self._pid == os.getpid():
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def __del__(self) -> None:
        # For a writer that was never closed.
        with suppress(Exception):
            if self._descriptor >= 0:
                os.close(self._descriptor)

    def remove(self) -> None:
        """Deletes the file after recording has ended. Raises OSError."""
        self._path.unlink(missing_ok=True)

    def __enter__(self) -> RecordingLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


class Holder(NamedTuple):
    """A line of the file: the holder's pid and host, since when (UTC), and its purpose."""

    pid: int
    host: str
    since: str
    what: str

    def dead(self) -> bool:
        """Whether the process has ended, if that can be checked from this host; its pid may be another's."""
        import psutil

        if self.host != platform.node():
            return False
        try:
            born = psutil.Process(self.pid).create_time()
            since = datetime.strptime(self.since, _SINCE).replace(tzinfo=UTC).timestamp()
        except psutil.NoSuchProcess:
            return True
        except (psutil.Error, ValueError, OverflowError):
            return False
        return born > since + _PID_REUSE_S


def hold_to_record(folder: Path, what: str) -> RecordingLock:
    """Takes a writer's lock, shared with other writers. `what`: the writer, for messages. Raises
    StillRecording if the folder is being sealed, EvidenceError if the file system has no locks, OSError.
    """
    return _hold(folder, fcntl.LOCK_SH, what)


def hold_alone(folder: Path, what: str = SEALING) -> RecordingLock:
    """Takes the exclusive lock for sealing another process's run: nothing can be recorded meanwhile. Waits up
    to PATIENCE_S for clients of a killed run to end, or for another process that is sealing. Raises
    StillRecording naming the recording process, EvidenceError if the file system has no locks, OSError.
    """
    return _hold(folder, fcntl.LOCK_EX, what)


def left_behind(folder: Path) -> bool:
    """Whether the file exists: a run is being recorded, or died before it was sealed."""
    return (folder / NAME).exists()


def first_holder(folder: Path) -> Holder | None:
    """The first holder, without taking a lock; None if nothing is being recorded."""
    try:
        descriptor = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return next(iter(_read(descriptor)), None)
    finally:
        os.close(descriptor)


def _hold(folder: Path, kind: int, what: str) -> RecordingLock:
    path, limit = folder / NAME, time.monotonic() + PATIENCE_S
    while True:
        descriptor = _open(path)
        try:
            if _locked(descriptor, kind, path) and _still_there(descriptor, path):
                _add_holder_line(descriptor, kind, what)
                return RecordingLock(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        holders = _read(descriptor)
        os.close(descriptor)
        # Waiting helps if the first process is gone, or another one seals the folder.
        may_end_soon = not holders or holders[0].dead() or holders[0].what == SEALING
        if time.monotonic() >= limit or not may_end_soon:
            raise StillRecording(_sentence(folder, holders))
        time.sleep(0.05)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno not in _UNWRITABLE or not path.exists():
            raise
        # With only read permission the lock can still be checked.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _locked(descriptor: int, kind: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise EvidenceError(
            f"{path}: its file system has no locks ({error.strerror}), so it is unknown whether the run is "
            "still being recorded; use a folder on another file system"
        ) from None
    return True


def _still_there(descriptor: int, path: Path) -> bool:
    """Whether the locked file still has that name: sealing may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _add_holder_line(descriptor: int, kind: int, what: str) -> None:
    since = time.strftime(_SINCE, time.gmtime())
    # Only the lock matters: on a full disk the line may be missing.
    with suppress(OSError):
        if kind == fcntl.LOCK_EX:
            os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} {platform.node() or '-'} {since} {what}\n".encode())


def _read(descriptor: int) -> list[Holder]:
    holders = []
    with suppress(OSError):
        for line in os.pread(descriptor, 65536, 0).decode(errors="replace").splitlines():
            words = line.split(" ", 3)
            if len(words) == 4 and words[0].isdecimal():
                holders.append(Holder(int(words[0]), *words[1:]))
    return holders


def _sentence(folder: Path, holders: list[Holder]) -> str:
    living = [holder for holder in holders if not holder.dead()]
    if not living:
        return f"{folder}: this run is still being recorded, by an unknown process; wait for it"
    pid, host, since, what = living[0]
    where = "" if host == platform.node() else f" on {host}"
    who = f"process {pid}{where} ({what}, since {since})"
    if what == SEALING:
        return f"{folder}: is being sealed by {who}; try again when that has ended"
    return f"{folder}: this run is still being recorded, by {who}; wait until it ends, or end it with Ctrl-C"
