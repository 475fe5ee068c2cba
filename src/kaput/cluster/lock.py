"""Lock files: every jar of a Kafka version by its Maven coordinates and SHA-256, in classpath order.

Its place: distribution.py reads them; locking.py makes them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from kaput.cache import cache_dir
from kaput.errors import DistributionError
from kaput.scenario.cluster import release_of

LOCKS = Path(__file__).parent / "locks"


@dataclass(frozen=True)
class LockedJar:
    """One jar: its Maven coordinates and SHA-256."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def relative(self) -> Path:
        """The jar's path in the cache; by group, because two groups may use one artifact name."""
        return Path(self.group) / f"{self.artifact}-{self.version}.jar"

    def line(self) -> str:
        """Its line in a lock file."""
        return f"{self.group}:{self.artifact}:{self.version} {self.sha256}"


def own_locks() -> Path:
    """The directory of lock files created on this machine. Raises LabError."""
    return cache_dir("locks")


def find_lock(version: str, of: str = "kafka") -> Path | None:
    """The lock file of a Kafka version (or of its additional jars `of`): kaput's own, or one created here."""
    name = f"{of}-{version}.lock"
    return next((path for path in (LOCKS / name, own_locks() / name) if path.is_file()), None)


def version_with(of: str, version: str) -> str:
    """The version to take the additional jars `of` from, for a cluster of this version.

    The version itself, unless it is newer than kaput's own lock files of them: their artifacts may come out
    later than the rest. Then the newest of these, which is a client like others.
    """
    own = max((path.stem.removeprefix(f"{of}-") for path in LOCKS.glob(f"{of}-*.lock")), key=release_of)
    newer = release_of(version) > release_of(own)
    return own if newer and find_lock(version, of) is None else version


def read_lock(version: str, of: str = "kafka") -> list[LockedJar]:
    """The jars of a Kafka version, or its additional jars `of`. Raises DistributionError naming the known
    versions.
    """
    path = find_lock(version, of)
    if path is None:
        files = [*LOCKS.glob(f"{of}-*.lock"), *own_locks().glob(f"{of}-*.lock")]
        there = ", ".join(sorted({p.stem.removeprefix(f"{of}-") for p in files}))
        what = f"Kafka {version}" if of == "kafka" else f"{of} of Kafka {version}"
        raise DistributionError(
            f"{what} has no lock file; there are lock files for: {there} (or use --kafka-home)"
        )
    return [_parse(line, path) for line in path.read_text().splitlines() if line and line[0] != "#"]


def _parse(line: str, path: Path) -> LockedJar:
    try:
        coordinates, sha256 = line.split()
        group, artifact, version = coordinates.split(":")
    except ValueError:
        raise DistributionError(f"{path}: not a line of a lock file: {line!r}") from None
    return LockedJar(group, artifact, version, sha256)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
