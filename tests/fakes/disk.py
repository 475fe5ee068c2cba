"""Doubles of the file that fills a disk, and of disks that hang or fail."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaput.errors import LabError
from kaput.faults.fault import now_ns


@dataclass
class FakeDisk:
    """Room for so many bytes by directory, and the ballasts in it.

    `fills` False: taking room takes none; `frees` False: what is given back stays taken.
    """

    fills: bool = True
    frees: bool = True
    broken: bool = False
    room: int = 1000
    taken: dict[tuple[Path, str], int] = field(default_factory=dict)
    leftovers: set[Path] = field(default_factory=set)

    def ballast(self, directory: Path, name: str) -> FakeBallast:
        """As the real one is made."""
        return FakeBallast(self, directory, name)

    def used(self, directory: Path) -> int:
        return sum(size for (place, _), size in self.taken.items() if place == directory)


@dataclass(frozen=True)
class FakeBallast:
    disk: FakeDisk
    directory: Path
    name: str

    def take(self) -> int:
        if self.disk.broken:
            raise LabError(f"the disk of {self.directory} cannot be filled: Input/output error")
        room = self.disk.room - self.disk.used(self.directory)
        self.disk.taken[self.directory, self.name] = room if self.disk.fills else 0
        return self.size()

    def size(self) -> int:
        return self.disk.taken.get((self.directory, self.name), 0)

    def delete(self) -> None:
        if self.disk.taken.pop((self.directory, self.name), 0) and not self.disk.frees:
            self.disk.leftovers.add(self.directory)

    def refuses(self) -> bool:
        return self.directory in self.disk.leftovers or self.disk.used(self.directory) >= self.disk.room


@dataclass
class FakeBlockDevices:
    """Disks that hang or fail. `obey` False: they go on working; `stay`: nothing brings them back."""

    obey: bool = True
    stay: bool = False
    broken: set[Path] = field(default_factory=set)

    def freezer(self, directories: Sequence[Path]) -> FakeFreezer:
        """As the real one is made."""
        return FakeFreezer(self, directories, now_ns())

    def break_disk(self, directory: Path) -> None:
        if self.obey:
            self.broken.add(directory)

    def write_error(self, directory: Path) -> int | None:
        return errno.EIO if directory in self.broken else None

    def repair(self, directory: Path) -> None:
        if not self.stay:
            self.broken.discard(directory)


@dataclass(frozen=True)
class FakeFreezer:
    devices: FakeBlockDevices
    directories: Sequence[Path]
    began_ns: int

    def frozen(self) -> dict[str, Any]:
        return {"frozen_ns": self.began_ns, "stalled": [self.devices.obey for _ in self.directories]}

    def thaw(self) -> dict[str, Any]:
        thawed_ns = now_ns()
        returned_ns = None if self.devices.stay else thawed_ns if self.devices.obey else self.began_ns
        returned = [returned_ns for _ in self.directories]
        return {"thawing_ns": thawed_ns, "thawed_ns": thawed_ns, "returned_ns": returned}
