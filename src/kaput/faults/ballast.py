"""The file that fills a disk, and the check whether the disk has free space. Used by disk_full.py."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from kaput.errors import LabError

PROBE = "kaput-probe"  # the file of each write that tries a disk
_TRIES = 100  # the broker may free space meanwhile
_PAGE = 4096


class Ballast:
    """One file on one file system. Every method raises LabError with the path and the system's error."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._path = directory, directory / name

    def take(self) -> int:
        """Fills all free space; returns the file's size in bytes."""
        with self._details("filled"), self._path.open("wb") as ballast:
            for _ in range(_TRIES):
                free = os.statvfs(self._directory)
                free_bytes = free.f_bavail * free.f_frsize
                if free_bytes < _PAGE:
                    break
                size = ballast.seek(0, os.SEEK_END)
                with contextlib.suppress(OSError):  # the broker used some meanwhile: retry
                    os.posix_fallocate(ballast.fileno(), size, free_bytes)
            return os.fstat(ballast.fileno()).st_size

    def size(self) -> int:
        """Its size in bytes; 0 if it does not exist."""
        with self._details("looked at"):
            try:
                return self._path.stat().st_size
            except FileNotFoundError:
                return 0

    def delete(self) -> None:
        """Deletes the file if it exists."""
        with self._details("freed"):
            self._path.unlink(missing_ok=True)

    def refuses(self) -> bool:
        """Whether the disk cannot hold even one more page."""
        probe = self._directory / PROBE
        with self._details("tried"):
            try:
                probe.write_bytes(bytes(_PAGE))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise  # not for lack of space
                return True
            finally:
                probe.unlink(missing_ok=True)
        return False

    @contextlib.contextmanager
    def _details(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LabError(f"the disk of {self._directory} cannot be {what}: {error.strerror}") from None
