"""Opening run folders for analysis: nothing may be recording there any more, and all tables get sealed.

If the folder cannot be written to, what a crash left is sealed in a temporary copy.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kaput.cli.scratch import Scratch
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence

DEFAULT_RUNS = Path("runs")
Runs = Annotated[Path, typer.Option(metavar="DIR", help="Directory with the run folders.")]
_COPIED = ("manifest.json", "scenario.yaml", "evidence/*/*")


def open_evidence(folder: RunFolder, scratch: Scratch) -> Evidence:
    """The folder's evidence, sealed and checked.

    Raises EvidenceError naming the file, StillRecording while a run is still being recorded there.
    """
    from kaput.evidence.reading import check
    from kaput.evidence.recording import left_behind
    from kaput.evidence.sealing import needs_sealing

    folder.read_manifest()
    if not (needs_sealing(folder) or left_behind(folder.path)):
        return check(folder)
    try:
        _seal(folder)
        return check(folder)
    except OSError as error:
        if not needs_sealing(folder):
            return check(folder)
        return check(_sealed_copy(folder, scratch, error))


def os_reason(error: OSError) -> str:
    """The system's own message for a failure, without a library's additions."""
    return os.strerror(error.errno) if error.errno else str(error)


def _seal(folder: RunFolder) -> None:
    from kaput.evidence.sealing import seal

    def note(sentences: list[str]) -> None:
        # Read again under the lock: an interrupted sealing has already noted its sentences.
        manifest = folder.read_manifest()
        new = [sentence for sentence in sentences if sentence not in manifest.troubles]
        if new:
            folder.write_manifest(manifest.model_copy(update={"troubles": manifest.troubles + new}))

    seal(folder, note=note)


def _sealed_copy(folder: RunFolder, scratch: Scratch, why: OSError) -> RunFolder:
    """A sealed copy. `why`: why the folder could not be sealed. Raises LabError if there is no room."""
    from kaput.errors import LabError
    from kaput.evidence.folder import RunFolder

    try:
        copy = RunFolder(scratch.directory() / folder.path.resolve().name, folder.title, unkept=why)
        for name in _COPIED:
            # Files only: a copied directory would be as read-only as the original.
            for path in folder.path.glob(name):
                target = copy.path / path.relative_to(folder.path)
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.is_file():
                    shutil.copyfile(path, target)
        _seal(copy)
    except OSError as error:
        raise LabError(
            f"{folder.title}: the evidence a crash left cannot be sealed in place ({os_reason(why)}) "
            f"or in a copy ({os_reason(error)}); give --scratch a directory with free space"
        ) from None
    return copy
