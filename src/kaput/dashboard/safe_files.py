"""Files below the folder of runs, and none besides: the only way in which the dashboard opens any.

A path is taken one name at a time, each opened in the directory before it, and a link is followed nowhere:
what a run folder holds may come from anybody, and may change while it is looked at.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kaput.evidence.folder import RunFolder

MOST_BYTES = 64 << 20  # of a file that is read as a whole: a report of 10 million messages has 3 MB
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe would be waited for


class Runs:
    """The folder of runs at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def names(self) -> list[str]:
        """The directories in it, the newest name first. Raises OSError."""
        with os.scandir(self.root) as found:
            names = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        return sorted((name for name in names if _sayable(name)), reverse=True)

    def folder(self, name: str) -> RunFolder:
        """The run of that name. Raises FileNotFoundError where there is none."""
        os.close(self.open(name, "manifest.json"))
        return RunFolder(self.root / name)

    def open(self, name: str, *parts: str, directory: bool = False) -> int:
        """A descriptor of a regular file, or of a directory, of a run. Raises OSError."""
        at = os.open(self.root, _OPEN | os.O_DIRECTORY)
        steps = (name, *parts)
        for number, step in enumerate(steps, 1):
            try:
                last = number == len(steps) and not directory
                below = os.open(_single(step), _OPEN | (0 if last else os.O_DIRECTORY), dir_fd=at)
            finally:
                os.close(at)
            at = below
        if not directory and not stat.S_ISREG(os.fstat(at).st_mode):
            os.close(at)
            raise FileNotFoundError(f"{'/'.join(steps)} is no file")
        return at

    def read(self, name: str, *parts: str) -> bytes:
        """A whole file of a run. Raises OSError, also where it is larger than any that kaput writes."""
        descriptor = self.open(name, *parts)
        try:
            size = os.fstat(descriptor).st_size
            if size > MOST_BYTES:
                raise _too_large(name, *parts)
            # What grows meanwhile is read as it was: such files are replaced, and not written on.
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)

    def changed_ns(self, name: str, *parts: str) -> int | None:
        """When a file of a run was last written; None where there is none. Nothing is opened."""
        try:
            path = self.root.joinpath(_single(name), *map(_single, parts))
            found = os.stat(path, follow_symlinks=False)  # noqa: PTH116
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None

    def files(self, name: str, *parts: str) -> list[str]:
        """The names of what is in a directory of a run, sorted; none where there is no such directory."""
        try:
            descriptor = self.open(name, *parts, directory=True)
        except OSError:
            return []
        try:
            return sorted(os.listdir(descriptor))  # noqa: PTH208
        finally:
            os.close(descriptor)

    def check(self, name: str, *parts: str) -> None:
        """Whether code may read it by its path: nothing below is a link, and a file is no larger than `read`
        takes. Raises OSError.

        What is not there is no link.
        """
        top = self.root.joinpath(name, *parts)
        if top.is_file() and top.stat().st_size > MOST_BYTES:
            raise _too_large(name, *parts)
        for at in (*reversed([p for p in top.parents if p.is_relative_to(self.root / name)]), top):
            if at.is_symlink():
                raise FileNotFoundError(f"{at} is a link")
        for directory, below, files in os.walk(top):
            for found in (*below, *files):
                if os.path.islink(os.path.join(directory, found)):  # noqa: PTH114, PTH118
                    raise FileNotFoundError(f"{directory}/{found} is a link")


def _too_large(*steps: str) -> OSError:
    return OSError(f"{'/'.join(steps)} has more than {MOST_BYTES:,} bytes")


def _single(step: str) -> str:
    """A name that leads nowhere but one step down. Raises FileNotFoundError."""
    if step in ("", ".", "..") or "/" in step or "\0" in step:
        raise FileNotFoundError(f"{step!r} is no name")
    return step


def _sayable(name: str) -> bool:
    """Whether an address can have it: a name that is no text has none."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not name.startswith(".")
