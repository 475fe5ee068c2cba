"""A run folder made ready to be judged: nobody records it any more, and all its tables are sealed.

Where the folder cannot be written to, what a crash left is sealed in a copy, which goes with the program.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaput.cli.scratch import Scratch
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence

_COPIED = ("manifest.json", "scenario.yaml", "evidence/*/*")


def ready(folder: RunFolder, scratch: Scratch) -> Evidence:
    """The folder's evidence, sealed and checked.

    Raises EvidenceError naming the file, StillRecording while somebody records it.
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


def told(error: OSError) -> str:
    """What the system says of a failure, without what a library makes of it."""
    return os.strerror(error.errno) if error.errno else str(error)


def _seal(folder: RunFolder) -> None:
    from kaput.evidence.sealing import seal

    def note(said: list[str]) -> None:
        # Read again now that nobody else seals: an interrupted sealing has noted its sentences already.
        manifest = folder.read_manifest()
        new = [sentence for sentence in said if sentence not in manifest.troubles]
        if new:
            folder.write_manifest(manifest.model_copy(update={"troubles": manifest.troubles + new}))

    seal(folder, note=note)


def _sealed_copy(folder: RunFolder, scratch: Scratch, why: OSError) -> RunFolder:
    """A copy that is sealed. `why`: what the folder itself said. Raises LabError where there is no room."""
    from kaput.errors import LabError
    from kaput.evidence.folder import RunFolder

    try:
        copy = RunFolder(scratch.directory() / folder.path.resolve().name, folder.title, unkept=why)
        for name in _COPIED:
            # Files alone: directories would bring along that they may not be written to.
            for path in folder.path.glob(name):
                there = copy.path / path.relative_to(folder.path)
                there.parent.mkdir(parents=True, exist_ok=True)
                if path.is_file():
                    shutil.copyfile(path, there)
        _seal(copy)
    except OSError as error:
        raise LabError(
            f"{folder.title}: what a crash left there cannot be sealed in place ({told(why)}), "
            f"nor in a copy ({told(error)}); give --scratch a directory with room"
        ) from None
    return copy
