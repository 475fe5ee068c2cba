"""Safe access to files below the folder of runs: the only way in which the dashboard opens files.

Paths are opened one component at a time, relative to the parent directory's descriptor, and symbolic links
are never followed: a run folder may come from anybody and may change while it is read.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from kaput.evidence.folder import RunFolder

MOST_BYTES = 64 << 20  # of a file that is read as a whole: the report of 10 million messages has 3 MB
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # opening a pipe would block


class Lenient(BaseModel):
    """A document in these files, of which only some fields are wanted."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Runs:
    """The folder of runs at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def names(self) -> list[str]:
        """The names of its directories, in descending order. Raises OSError."""
        with os.scandir(self.root) as found:
            names = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
        return sorted((name for name in names if _addressable(name)), reverse=True)

    def folder(self, name: str) -> RunFolder:
        """The run folder of that name. Raises FileNotFoundError if there is none."""
        os.close(self.open(name, "manifest.json"))
        return RunFolder(self.root / name)

    def open(self, name: str, *parts: str, directory: bool = False) -> int:
        """A file descriptor of a regular file, or of a directory, of a run. Raises OSError."""
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
            raise FileNotFoundError(f"{'/'.join(steps)} is not a file")
        return at

    def read(self, name: str, *parts: str) -> bytes:
        """The content of a file of a run. Raises OSError, also if it is larger than MOST_BYTES."""
        descriptor = self.open(name, *parts)
        try:
            size = os.fstat(descriptor).st_size
            if size > MOST_BYTES:
                raise _too_large(name, *parts)
            # These files are replaced, never appended to, so the size cannot grow meanwhile.
            return os.read(descriptor, size)
        finally:
            os.close(descriptor)

    def changed_ns(self, name: str, *parts: str) -> int | None:
        """When a file of a run was last written; None if there is none. Opens nothing."""
        try:
            path = self.root.joinpath(_single(name), *map(_single, parts))
            status = os.stat(path, follow_symlinks=False)  # noqa: PTH116
        except (OSError, ValueError):
            return None
        return status.st_mtime_ns if stat.S_ISREG(status.st_mode) else None

    def files(self, name: str, *parts: str) -> list[str]:
        """The sorted names in a directory of a run; empty if there is no such directory."""
        try:
            descriptor = self.open(name, *parts, directory=True)
        except OSError:
            return []
        try:
            return sorted(os.listdir(descriptor))  # noqa: PTH208
        finally:
            os.close(descriptor)

    def check(self, name: str, *parts: str) -> None:
        """Checks that code may read this path by name: it and everything below is not a link, and a file is
        not larger than MOST_BYTES. A missing path is fine. Raises OSError.
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
    """The name, if it is a single path component. Raises FileNotFoundError."""
    if step in ("", ".", "..") or "/" in step or "\0" in step:
        raise FileNotFoundError(f"{step!r} is not a name")
    return step


def _addressable(name: str) -> bool:
    """Whether a URL can contain the name: it must be valid text. Hidden names are excluded."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not name.startswith(".")
