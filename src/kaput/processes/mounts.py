"""Unmounts kaput's own mounts before their directory is removed. Mounting: cluster/disk.py."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_DETACH = 2  # MNT_DETACH of umount2(2): works while a dying process still has a file open


def unmount(path: Path) -> bool:
    """Unmounts `path`; returns whether nothing is mounted there any more."""
    if not path.is_mount():
        return True
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.umount2(os.fsencode(path), _DETACH) == 0)
