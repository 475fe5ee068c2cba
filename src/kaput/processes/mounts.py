"""Unmounts and thaws kaput's own mounts before their directory is removed. Mounting: cluster/disk.py."""

from __future__ import annotations

import ctypes
import fcntl
import os
from pathlib import Path

_DETACH = 2  # MNT_DETACH of umount2(2): works while a dying process still has a file open
_FREEZE, _THAW = 0xC0045877, 0xC0045878  # linux/fs.h


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
    _ask(path, _FREEZE)


def thaw(path: Path) -> bool:
    """Ends that; returns whether it was frozen."""
    try:
        _ask(path, _THAW)
    except OSError:
        return False
    return True


def _ask(path: Path, what: int) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(directory, what, 0)
    finally:
        os.close(directory)
