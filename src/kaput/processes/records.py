"""The registry: files that list what each owner started and must end, and that outlive the owner.

One directory per owner, named after the owning process and its start time, so that a reused process id is
never mistaken for the owner. Not here: ending anything (ending.py). Written by ownership.py, read by
guardian.py and ending.py.
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

# In the environment of every process that kaput starts, and of all their descendants.
MARKER = "KAPUT_OWNER"
# One process may have several owners: the owner's name, in the environment of what it spawned.
OWNER_NAME = "KAPUT_OWNER_NAME"
_NAME = re.compile(r"(?P<marker>(?P<pid>\d+)-(?P<start>[\w.]+))-\d+")


def start_of(pid: int) -> str | None:
    """When a running process was started, as text to compare; None if there is none, or it is a zombie. On
    Linux: boot id and clock ticks, which do not change when the clock is adjusted, unlike the time of day.
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
    """The marker of this process: its id and its start."""
    return f"{os.getpid()}-{start_of(os.getpid())}"


def unmarked_environment() -> dict[str, str]:
    """The environment of this process without the marks by which its children are ended with it."""
    return {key: value for key, value in os.environ.items() if key not in (MARKER, OWNER_NAME)}


def registry() -> Path:
    """The directory of this machine's records; machines and containers may share a home."""
    try:
        machine = f"{platform.node()}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        machine = platform.node()
    return Path(platformdirs.user_state_dir("kaput")) / "owners" / machine


@dataclass(frozen=True)
class StartedProcess:
    pid: int
    start: str
    name: str

    def running(self) -> bool:
        """Whether this process, not another one with the same id, still runs."""
        return start_of(self.pid) == self.start


@dataclass(frozen=True)
class ProcessRecord:
    """The record of one owner: a directory with append-only lists of processes and paths."""

    path: Path

    @classmethod
    def create(cls) -> ProcessRecord:
        """A new record of this process. Raises LabError if it cannot be written."""
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
        """The marker in the environment of the owning process's children."""
        return self.path.name.rpartition("-")[0]

    @property
    def name(self) -> str:
        """The name in the environment of what this owner spawns; unique among the owners of a process."""
        return self.path.name

    def owner_gone(self) -> bool:
        """Whether the owning process has ended; False for a directory that is not a record."""
        match = _NAME.fullmatch(self.path.name)
        return match is not None and start_of(int(match["pid"])) != match["start"]

    def add_process(self, started: StartedProcess) -> None:
        self._append("processes", [started.pid, started.start, started.name])

    def add_path(self, path: Path) -> None:
        self._append("paths", str(path))

    def processes(self) -> list[StartedProcess]:
        """All processes on record, ended or not."""
        return [StartedProcess(pid, start, name) for pid, start, name in self._read("processes")]

    def paths(self) -> list[Path]:
        return [Path(path) for path in self._read("paths")]

    def remove(self) -> None:
        """Deletes the record; safe if another process does so too."""
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
        # A line without a newline was being written when the owner was killed.
        return [json.loads(line) for line in lines if line.endswith("\n")]


def all_records() -> list[ProcessRecord]:
    try:
        return [ProcessRecord(path) for path in sorted(registry().iterdir()) if path.is_dir()]
    except OSError:
        return []
