"""The evidence of a run folder with all tables sealed: tables left unsealed by a crash are sealed first.

If the folder is read-only, a copy is sealed in a scratch directory, which is created when first needed and
deleted when the program ends. Such a directory also serves evidence from a URL, and the comparison of a
mirror's clusters at the end of a run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

    from kaput.cluster.kafka_cluster import ClusterAddress
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence
    from kaput.runner.mirrors.drain import CompareMirror
    from kaput.scenario.mirrors import Mirror


class Scratch:
    """A context manager. `where`: the parent directory; None: the system's temporary directory."""

    def __init__(self, where: Path | None = None) -> None:
        self.where = where
        self._stack = ExitStack()
        self._made: Path | None = None
        self._number = 0

    @property
    def used(self) -> bool:
        """Whether the directory was created."""
        return self._made is not None

    def directory(self) -> Path:
        """A new, empty subdirectory. Raises OSError if it cannot be created."""
        from kaput.processes.ownership import Owner

        if self._made is None:
            owner = self._stack.enter_context(Owner())
            self._made = owner.own_path(Path(tempfile.mkdtemp(prefix="kaput-scratch-", dir=self.where)))
        self._number += 1
        path = self._made / str(self._number)
        path.mkdir()
        return path

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


_COPIED = ("manifest.json", "scenario.yaml", "evidence/*", "evidence/*/*", "compare/*.json")


def sealed_evidence(folder: RunFolder, scratch: Scratch) -> Evidence:
    """The checked evidence of a folder.

    Raises EvidenceError with the file, StillRecording while it is being recorded.
    """
    from kaput.evidence.reading import check
    from kaput.evidence.recording import left_behind
    from kaput.evidence.sealing import needs_sealing

    folder.read_manifest()
    try:
        if needs_sealing(folder) or left_behind(folder.path):
            _seal(folder)
        return check(folder)
    except OSError as error:
        why = error
    with suppress(OSError):
        if not needs_sealing(folder):
            return check(folder)
    return check(_sealed_copy(folder, scratch, why))


def reason(error: OSError) -> str:
    """The system's message for an error."""
    return os.strerror(error.errno) if error.errno else str(error)


def _seal(folder: RunFolder) -> None:
    from kaput.evidence.sealing import seal

    def note(sentences: list[str]) -> None:
        # Read again under the sealing lock: an interrupted sealing may have noted its sentences already.
        manifest = folder.read_manifest()
        new = [sentence for sentence in sentences if sentence not in manifest.troubles]
        if new:
            folder.write_manifest(manifest.model_copy(update={"troubles": manifest.troubles + new}))

    seal(folder, note=note)


def _sealed_copy(folder: RunFolder, scratch: Scratch, why: OSError) -> RunFolder:
    """A sealed copy. `why`: the error for the folder itself. Raises LabError if the copy fails, too."""
    from kaput.errors import LabError
    from kaput.evidence.folder import RunFolder

    try:
        copy = RunFolder(scratch.directory() / folder.path.resolve().name, folder.title, copy_back_error=why)
        for name in _COPIED:
            # Only files: copied directories would keep their read-only permissions.
            for path in folder.path.glob(name):
                there = copy.path / path.relative_to(folder.path)
                there.parent.mkdir(parents=True, exist_ok=True)
                if path.is_file():
                    shutil.copyfile(path, there)
        _seal(copy)
    except OSError as error:
        raise LabError(
            f"{folder.title}: its tables must be sealed or converted first, which works neither in place "
            f"({reason(why)}) nor in a copy ({reason(error)}); give --scratch a directory with room"
        ) from None
    return copy


def mirror_comparison(session: Callable[[], SparkContext], scratch: Scratch) -> CompareMirror:
    """A function that compares the topics of a mirror. `scratch`: for temporary copies of records."""

    def compare(mirror: Mirror, source: ClusterAddress, target: ClusterAddress) -> Mapping[str, Any]:
        from kaput.compare.comparing import ClusterComparison, ComparisonRequest

        request = ComparisonRequest(
            source,
            target,
            topics=mirror.topics,
            policy=mirror.policy,
            wait_s=0.0,  # the drain has already waited for the mirror
        )
        folder = scratch.directory()
        return ClusterComparison(request, folder, session, lambda _what, _done, _total: None).run().as_json()

    return compare
