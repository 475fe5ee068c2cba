"""A file system of its own for a broker's data, so small that it can be filled: tmpfs in kaput's namespace.

kaput has entered a mount namespace before (network/entering.py), so the mount is seen by all that is inside
and by nobody else, and is gone with the last process in it. Not here: filling it (faults/disk_full.py), and
taking it away (processes/mounts.py).
"""

from __future__ import annotations

from pathlib import Path

from kaput.cluster.network.tools import call, tool


def mount(path: Path, size_mb: int) -> None:
    """An empty file system of `size_mb` MiB at `path`, which is made. Raises LabError."""
    path.mkdir(parents=True, exist_ok=True)
    call([tool("mount"), "-t", "tmpfs", "-o", f"size={size_mb}m,mode=0755", "kaput", str(path)])
