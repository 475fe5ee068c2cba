"""The registry: what each owner has started and must be ended, as files that outlive the owner.

One directory an owner, named after the owning process and the moment it started, so that a process id
that was used again is never taken for the owner. Not here: ending anything (ending.py).
Its place: written by ownership.py, read by guardian.py and reaper.py.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import psutil

from kaput.errors import LabError

# Every process that kaput starts, and all that those start, carry this in their environment.
MARKER = "KAPUT_OWNER"
# One process may have several owners; what each of them spawned, and all that those start, carry its name.
OWNER_NAME = "KAPUT_OWNER_NAME"
_NAME = re.compile(r"(?P<marker>(?P<pid>\d+)-(?P<start>[\w.]+))-\d+")


def start_of(pid: int) -> str | None:
    """When a running process was started, as text that is only compared; None for none or a zombie.

    On Linux these are boot id and clock ticks, which, unlike a time of day, an adjusted clock leaves alone.
    """
    if platform.system() != "Linux":
        return _start_elsewhere(pid)
    try:
        # The second field is the name in parentheses, which may itself hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{_boot()}.{fields[19]}"


def _start_elsewhere(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        ended = process.status() == psutil.STATUS_ZOMBIE
        return None if ended else f"{process.create_time() * 1000:.0f}"
    except psutil.Error:
        return None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]


def own_marker() -> str:
    """The marker of this very process: its id and its start."""
    return f"{os.getpid()}-{start_of(os.getpid())}"


def registry() -> Path:
    """Where this machine's owners keep their records; machines and containers may share a home."""
    try:
        machine = f"{platform.node()}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        machine = platform.node()
    return Path(platformdirs.user_state_dir("kaput")) / "owners" / machine


@dataclass(frozen=True)
class Started:
    """A process on record."""

    pid: int
    start: str
    name: str

    def running(self) -> bool:
        """Whether this very process, not another one of the same id, still runs."""
        return start_of(self.pid) == self.start


@dataclass(frozen=True)
class ProcessRecord:
    """The record of one owner: a directory with append-only lists of processes and of paths."""

    path: Path

    @classmethod
    def create(cls) -> ProcessRecord:
        """A fresh record of this process. Raises LabError where none can be made."""
        root, number = registry(), 0
        try:
            root.mkdir(parents=True, exist_ok=True)
            while True:  # ends: a process has finitely many owners at a time
                try:
                    path = root / f"{own_marker()}-{number}"
                    path.mkdir()
                    return cls(path)
                except FileExistsError:
                    number += 1
        except OSError as error:
            raise LabError(
                f"{root} cannot be written to ({error.strerror}): kaput notes there what it starts, so that "
                "nothing is ever left behind; set XDG_STATE_HOME to a directory of yours"
            ) from None

    @property
    def marker(self) -> str:
        """What processes of this owner carry in their environment."""
        return self.path.name.rpartition("-")[0]

    @property
    def name(self) -> str:
        """What this owner alone, and no other one of its process, gives to what it spawns."""
        return self.path.name

    def owner_gone(self) -> bool:
        """Whether the owning process has ended; False for a directory that is no record."""
        match = _NAME.fullmatch(self.path.name)
        return match is not None and start_of(int(match["pid"])) != match["start"]

    def add_process(self, started: Started) -> None:
        """Puts a process on record."""
        self._append("processes", [started.pid, started.start, started.name])

    def add_path(self, path: Path) -> None:
        """Puts a directory on record."""
        self._append("paths", str(path))

    def processes(self) -> list[Started]:
        """All processes on record, ended or not."""
        return [Started(pid, start, name) for pid, start, name in self._read("processes")]

    def paths(self) -> list[Path]:
        """All directories on record."""
        return [Path(path) for path in self._read("paths")]

    def remove(self) -> None:
        """Forgets everything; two cleaners at once do no harm."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _append(self, name: str, entry: object) -> None:
        # One write of one line in append mode: a killed owner leaves whole lines.
        with (self.path / name).open("a", buffering=1) as file:
            file.write(json.dumps(entry) + "\n")

    def _read(self, name: str) -> list[Any]:
        try:
            lines = (self.path / name).read_text().splitlines(keepends=True)
        except OSError:
            return []
        # A line without its end was being written when the owner was killed.
        return [json.loads(line) for line in lines if line.endswith("\n")]


def all_records() -> list[ProcessRecord]:
    """The records of every owner on this machine."""
    try:
        return [ProcessRecord(path) for path in sorted(registry().iterdir()) if path.is_dir()]
    except OSError:
        return []
