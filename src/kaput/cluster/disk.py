"""A file system of its own for a broker's data, so small that it can be filled: tmpfs in kaput's namespace.

kaput has entered a mount namespace before (network/reexec.py), so the mount is seen by all that is inside
and by nobody else, and is gone with the last process in it. Not here: filling it (faults/disk_full.py), and
taking it away (processes/mounts.py).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from kaput.errors import LabError


def mount(path: Path, size_mb: int) -> None:
    """An empty file system of `size_mb` MiB at `path`, which is made. Raises LabError."""
    path.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(
        b"kaput", os.fsencode(path), b"tmpfs", ctypes.c_ulong(0), f"size={size_mb}m,mode=0755".encode()
    ):
        raise LabError(f"cannot mount a separate disk at {path}: {os.strerror(ctypes.get_errno())}")
