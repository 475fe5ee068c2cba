"""A small separate file system for a broker's data, which can be filled: tmpfs in kaput's namespace.

kaput is in a mount namespace (network/reexec.py), so the mount is visible only inside it, and ends with its
last process. Not here: filling it (faults/disk_full.py), and unmounting it (processes/mounts.py).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from kaput.errors import LabError


def mount(path: Path, size_mb: int) -> None:
    """Mounts an empty file system of `size_mb` MiB at `path`. Raises LabError."""
    path.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(
        b"kaput", os.fsencode(path), b"tmpfs", ctypes.c_ulong(0), f"size={size_mb}m,mode=0755".encode()
    ):
        raise LabError(f"cannot mount a separate disk at {path}: {os.strerror(ctypes.get_errno())}")
