"""Unmounting kaput's own mounts, what file systems are asked by ioctl(2), where system programs are.

Mounting: cluster/disk.py.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DETACH = 2  # MNT_DETACH of umount2(2): works while a dying process still has a file open
_FREEZE, _THAW = 0xC0045877, 0xC0045878  # linux/fs.h
SYSTEM_DIRECTORIES = ("/usr/sbin", "/sbin")  # often not in an ordinary user's PATH


def tool(name: str) -> str:
    """The path of a program of the system, or its bare name if it is not installed."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_DIRECTORIES])
    return shutil.which(name, path=path) or name


def unmount(path: Path) -> bool:
    """Unmounts `path`, thawed; returns whether nothing is mounted there any more."""
    if not path.is_mount():
        return True
    thaw(path)
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.umount2(os.fsencode(path), _DETACH) == 0)


def freeze(path: Path) -> None:
    """Stops all writes to the file system mounted at `path` until it is thawed. Raises OSError."""
    if not path.is_mount():  # never the file system that everything else is on
        raise OSError(f"{path} is not a file system of its own")
    ask(path, _FREEZE)


def thaw(path: Path) -> bool:
    """Ends that; returns whether it was frozen."""
    try:
        ask(path, _THAW)
    except OSError:
        return False
    return True


def ask(path: Path, request: int, argument: int | bytes = 0) -> None:
    """An ioctl(2) on the directory `path`. Raises OSError."""
    with opened(path) as directory:
        fcntl.ioctl(directory, request, argument)


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of the directory `path`. Raises OSError."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield directory
    finally:
        os.close(directory)
