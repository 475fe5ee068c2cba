"""The evidence of a run folder with all tables sealed: tables left unsealed by a crash are sealed first.

If the folder is read-only, a copy is sealed, which is deleted when the program ends.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaput.api.scratch import Scratch
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence

_COPIED = ("manifest.json", "scenario.yaml", "evidence/*/*", "compare/*.json")


def sealed_evidence(folder: RunFolder, scratch: Scratch) -> Evidence:
    """The checked evidence of a folder.

    Raises EvidenceError with the file, StillRecording while it is being recorded.
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


def reason(error: OSError) -> str:
    """The system's message for an error."""
    return os.strerror(error.errno) if error.errno else str(error)


def _seal(folder: RunFolder) -> None:
    from kaput.evidence.sealing import seal

    def note(said: list[str]) -> None:
        # Read again under the sealing lock: an interrupted sealing may have noted its sentences already.
        manifest = folder.read_manifest()
        new = [sentence for sentence in said if sentence not in manifest.troubles]
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
            f"{folder.title}: what a crash left there cannot be sealed in place ({reason(why)}), "
            f"nor in a copy ({reason(error)}); give --scratch a directory with room"
        ) from None
    return copy
