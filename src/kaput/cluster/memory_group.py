"""A node's memory cgroup, which counts what its process and its page cache hold, and can limit it.

Version 1 and version 2 of cgroups have the same in different files. Making one needs root; it is removed with
what kaput owns. Not here: when it is limited (faults/memory_pressure.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kaput.errors import LabError
from kaput.processes.ownership import Owner

MOUNTS = Path("/proc/mounts")
_PAGE = 4096
# Started by a shell, since a process can only be moved once it runs, and then would not be charged for what
# it holds already.
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


@dataclass(frozen=True)
class _Files:
    """The files of a version. `lifted`: a limit that limits nothing; `reached`: how often it was reached."""

    usage: str
    limit: str
    lifted: str
    reached: str
    word: str | None  # before the number in `reached`


_V1 = _Files("memory.usage_in_bytes", "memory.limit_in_bytes", "-1", "memory.failcnt", None)
# Not memory.max: above it the kernel kills, above memory.high it makes the process wait and reclaims.
_V2 = _Files("memory.current", "memory.high", "max", "memory.events", "high")


class MemoryGroup:
    """The group at `path`. Methods raise LabError if the kernel refuses, or the group is gone."""

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self._version, self._files = version, _V1 if version == 1 else _V2

    @classmethod
    def create(cls, owner: Owner) -> MemoryGroup:
        """A new group, without a limit. Raises LabError where there can be none."""
        place, version = _place()
        try:
            if version == 2:
                _enable(place)
            return cls(owner.own_path(Path(tempfile.mkdtemp(prefix="kaput-", dir=place))), version)
        except OSError as error:
            raise _impossible(f"{place}: {error.strerror}") from None

    def entering(self, command: list[str]) -> list[str]:
        return ["sh", "-c", _ENTER, str(self.path), *command]

    def usage(self) -> int:
        """The bytes that it holds."""
        return self._number(self._files.usage)

    def held(self) -> int:
        """Those of them that cannot be reclaimed: heap and stacks, not the page cache."""
        stat = self._stat()
        return max(0, self.usage() - stat["active_file"] - stat["inactive_file"])

    def limit(self, size: int) -> int:
        """Limits it to `size` bytes; the kernel reclaims what is above. Returns what it then holds."""
        if self._version == 1:
            # A process that needs more than there is waits until the limit is raised, and is not killed.
            self._write("memory.oom_control", "1")
        self._write(self._files.limit, str(-(-size // _PAGE) * _PAGE))
        return self.usage()

    def lift(self) -> bool:
        """Removes the limit; returns whether it is gone."""
        self._write(self._files.limit, self._files.lifted)
        if self._version == 1:
            self._write("memory.oom_control", "0")
        text = self._read(self._files.limit).strip()
        return text == "max" or int(text) > 1 << 50

    def times_reached(self) -> int:
        """How often its process had to wait at the limit, since the group was made."""
        text = self._read(self._files.reached)
        if self._files.word is None:
            return int(text)
        return dict(_pairs(text))[self._files.word]

    def major_faults(self) -> int:
        """How often its process had to read a page of memory from a disk, since the group was made."""
        return self._stat()["pgmajfault"]

    def _stat(self) -> Mapping[str, int]:
        return dict(_pairs(self._read("memory.stat")))

    def _number(self, name: str) -> int:
        return int(self._read(name))

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text()
        except OSError as error:
            raise LabError(f"{self.path / name} cannot be read: {error.strerror}") from None

    def _write(self, name: str, text: str) -> None:
        try:
            (self.path / name).write_text(text)
        except OSError as error:
            raise LabError(f"{self.path / name} cannot be set to {text}: {error.strerror}") from None


def _pairs(text: str) -> list[tuple[str, int]]:
    return [(name, int(number)) for name, number in (line.split() for line in text.splitlines())]


def _place() -> tuple[Path, int]:
    """Where groups with a memory controller are made, and the version. Raises LabError if nowhere."""
    try:
        mounts = [line.split() for line in MOUNTS.read_text().splitlines()]
    except OSError as error:
        raise _impossible(str(error)) from None
    for _, place, kind, options, *_ in mounts:
        if kind == "cgroup" and "memory" in options.split(","):
            return Path(place), 1
    for _, place, kind, *_ in mounts:
        controllers = Path(place) / "cgroup.controllers"
        if kind == "cgroup2" and controllers.exists() and "memory" in controllers.read_text().split():
            return Path(place), 2
    raise _impossible("no cgroup file system here has the memory controller")


def _enable(place: Path) -> None:
    """Version 2: groups have only what their parent passes on."""
    passed_on = place / "cgroup.subtree_control"
    if "memory" not in passed_on.read_text().split():
        passed_on.write_text("+memory")


def _impossible(why: str) -> LabError:
    return LabError(
        f"cluster.memory-groups needs root and cgroups with the memory controller, and in a container also "
        f"permission to create cgroups ({why})"
    )
