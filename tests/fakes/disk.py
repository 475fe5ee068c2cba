"""A double of the file that fills a disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kaput.errors import LabError


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
    """One file on it."""

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
