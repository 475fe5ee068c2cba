"""Mounts of kaput's own: taken away before their directory is removed. Making them: cluster/disk.py."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_DETACH = 2  # MNT_DETACH of umount2(2): also where a dying process still has a file open


def unmount(path: Path) -> bool:
    """Whether nothing is mounted at `path` any more."""
    if not path.is_mount():
        return True
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.umount2(os.fsencode(path), _DETACH) == 0)
