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

_KAPUT_CLASSES = (
    Path(__file__).parent / "java"
)  # RequestVersions.class; last in the classpath, so that class archives still fit


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

    def switch_to(self, version: str) -> None:
        """Makes `version` the version for new starts. Raises LabError if it is not a successor."""
        if version not in self._successors:
            raise LabError(f"this cluster cannot be upgraded to Kafka {version}")
        self.current = self._successors[version]

    def command(
        self, main: str, args: Sequence[str | Path], heap: tuple[str, str] | None, flags: Sequence[str]
    ) -> list[str]:
        """The command line of a node; without `heap`, with the lab's default."""
        sized = {} if heap is None else {"heap": heap}
        archive = self._archives[self.current.version]
        with_kaput_classes = replace(self.current, jars=(*self.current.jars, _KAPUT_CLASSES))
        return java_command(self._java, with_kaput_classes, main, args, archive=archive, flags=flags, **sized)
