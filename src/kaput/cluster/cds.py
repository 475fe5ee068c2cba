"""The archive of loaded classes (AppCDS) that halves the startup time of nodes: created once, then shared.

One clean run of a broker creates it (cds_builder.py), for each build of Java and each set of jars. The JVM
ignores an invalid archive, so only speed depends on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from kaput.cache import cache_dir, exclusive
from kaput.cluster.distribution import PROFILE, Distribution
from kaput.errors import LabError
from kaput.java import Java

_CREATE_TIMEOUT_S = 240.0


def ensure_archive(distribution: Distribution, java: Java, note: Callable[[str], None]) -> Path | None:
    """The archive for these jars and this Java, created if missing; None if that fails."""
    root, key = cache_dir("cds"), _key(distribution, java)
    unable = root / f"{key}.unable"
    if (archive := find_archive(distribution, java)) or unable.exists():
        return archive
    with exclusive(root / ".lock", _CREATE_TIMEOUT_S):
        if archive := find_archive(distribution, java):
            return archive  # another kaput created it while this one waited
        note("preparing faster broker starts (once)")
        # Imported here: without it, a tool that finds the archive starts in a third of the time.
        from kaput.cluster.cds_builder import create_archive

        try:
            create_archive(root, key, distribution, java)
        except LabError as error:
            note(f"brokers will start slowly: {error}")
            return None
        archive = find_archive(distribution, java)
        if archive is None:
            unable.touch()  # the broker ran, but this Java creates no archives: do not try again
    return archive


def find_archive(distribution: Distribution, java: Java) -> Path | None:
    """The archive, if complete. Its name contains its size: a truncated one crashes the JVM."""
    for archive in cache_dir("cds").glob(f"{_key(distribution, java)}-*.jsa"):
        if archive.stem.endswith(f"-{archive.stat().st_size}"):
            return archive
    return None


def _key(distribution: Distribution, java: Java) -> str:
    made_for = [str(java.path.resolve()), java.build, distribution.classpath, distribution.id, *PROFILE]
    return hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:16]
