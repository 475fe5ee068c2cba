"""A run folder made ready to be judged: nobody records it any more, and all its tables are sealed.

Where the folder cannot be written to, what a crash left is sealed in a copy, which goes with the program.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaput.cli.scratch import Scratch
    from kaput.evidence.folder import RunFolder
    from kaput.evidence.reading import Evidence

_COPIED = ("manifest.json", "scenario.yaml")


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
        copy.path.mkdir()
        for name in _COPIED:
            if (folder.path / name).exists():
                shutil.copyfile(folder.path / name, copy.path / name)
        shutil.copytree(folder.path / "evidence", copy.path / "evidence", copy_function=shutil.copyfile)
        _seal(copy)
    except (OSError, shutil.Error) as error:
        raise LabError(
            f"{folder.title}: what a crash left there cannot be sealed in place ({why.strerror or why}), "
            f"nor in a copy ({error}); give --scratch a directory with room"
        ) from None
    return copy
