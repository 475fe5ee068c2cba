"""The Kafka versions of a cluster: the current one, and those it may be upgraded to.

Its place: lab.py starts nodes with the command lines from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kaput.cluster.cds import ensure_archive
from kaput.cluster.distribution import Distribution
from kaput.cluster.jvm import java_command
from kaput.errors import LabError
from kaput.java import Java

_OURS = (
    Path(__file__).parent / "java"
)  # RequestVersions.class, behind the jars: archives of classes still fit


class Versions:
    """`current`: the version for new starts; `successors`: possible upgrades."""

    def __init__(self, first: Distribution, successors: Sequence[Distribution], java: Java) -> None:
        self.current = first
        self._successors = {each.version: each for each in successors}
        self._java = java
        self._archives: dict[str, Path | None] = {}  # of classes, by version

    def prepare(self, note: Callable[[str], None]) -> None:
        """Prepares fast starts of all versions; `note` gets a message if it takes long."""
        for each in (self.current, *self._successors.values()):
            self._archives[each.version] = ensure_archive(each, self._java, note)

    def become(self, version: str) -> None:
        """Nodes start with that version from now on. Raises LabError if it is not a successor."""
        if version not in self._successors:
            raise LabError(f"this cluster cannot be upgraded to Kafka {version}")
        self.current = self._successors[version]

    def command(
        self, main: str, args: Sequence[str | Path], heap: tuple[str, str] | None, flags: Sequence[str]
    ) -> list[str]:
        """The command line of a node; without `heap`, with the lab's default."""
        sized = {} if heap is None else {"heap": heap}
        archive = self._archives[self.current.version]
        with_ours = replace(self.current, jars=(*self.current.jars, _OURS))
        return java_command(self._java, with_ours, main, args, archive=archive, flags=flags, **sized)
