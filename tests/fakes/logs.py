"""A double of brokers' logs that were not synced to their end."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kaput.faults.power_loss import UnsyncedTail


@dataclass
class FakeLogs:
    """Each broker has one; of it `size` bytes were not synced. `stay`: cutting takes nothing away.

    `more`: logs of other partitions, of so many bytes. `broken`: they cannot be read.
    """

    stay: bool = False
    size: int = 700
    more: dict[tuple[str, int], int] = field(default_factory=dict)
    broken: bool = False
    cut_files: list[Path] = field(default_factory=list)

    def tails(self, data: Path, log: Path) -> list[UnsyncedTail]:
        """As the real one is found."""
        assert log.parent == data.parent, "what this broker has said"
        if self.broken:
            raise OSError("Input/output error")
        if data in self.cut_files or not self.size:
            return []
        others = [UnsyncedTail(*place, 50, size, ((data, 0),)) for place, size in self.more.items()]
        return [UnsyncedTail("orders", 0, 900, self.size, ((data, 0),)), *others]

    def cut(self, tail: UnsyncedTail) -> None:
        if not self.stay:
            self.cut_files.append(tail.files[0][0])
