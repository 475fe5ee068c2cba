"""Lock files: every jar of a Kafka version by its Maven coordinates and SHA-256, in classpath order."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kaput.cache import cache_dir
from kaput.cluster.ivy import fetch
from kaput.core import NEWEST_KAFKA, OLDEST_KAFKA
from kaput.errors import DistributionError, UsageError
from kaput.evidence.folder import replace_text
from kaput.java import Java
from kaput.scenario.cluster import release_of

LOCKS = Path(__file__).parent / "locks"


@dataclass(frozen=True)
class LockedJar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def relative(self) -> Path:
        """The jar's path in the cache; by group, because two groups may use one artifact name."""
        return Path(self.group) / f"{self.artifact}-{self.version}.jar"

    def line(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version} {self.sha256}"


def own_locks() -> Path:
    """The directory of lock files created on this machine. Raises LabError."""
    return cache_dir("locks")


def find_lock(version: str, of: str = "kafka") -> Path | None:
    """The lock file of a Kafka version (or of its additional jars `of`): kaput's own, or one created here."""
    name = f"{of}-{version}.lock"
    return next((path for path in (LOCKS / name, own_locks() / name) if path.is_file()), None)


def version_with(of: str, version: str) -> str:
    """The version to take the additional jars `of` from, for a cluster of this version. The version itself,
    unless it is newer than kaput's own lock files of them: their artifacts may come out later than the rest.
    Then the newest of these, which is a client like others.
    """
    own = max((path.stem.removeprefix(f"{of}-") for path in LOCKS.glob(f"{of}-*.lock")), key=release_of)
    newer = release_of(version) > release_of(own)
    return own if newer and find_lock(version, of) is None else version


def read_lock(version: str, of: str = "kafka") -> list[LockedJar]:
    """The jars of a Kafka version, or its additional ones `of`. Raises DistributionError."""
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


KAFKA = "org.apache.kafka"
ADDITIONAL = {"mirror": "connect-mirror"}  # lock files of additional jars, with their artifacts
_LOG4J = "org.apache.logging.log4j"
_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+")
Module = tuple[str, str, str]  # (group, artifact, version)
Fetch = Callable[[Sequence[Module], Path], None]  # fetches these with their dependencies into a directory


def create_lock(version: str, of: str, get: Fetch) -> Path:
    """Creates a version's lock file in the cache, and fetches its jars, locked. Raises DistributionError."""
    _check_version(version)
    root = cache_dir("jars")
    with tempfile.TemporaryDirectory(prefix=".locking-", dir=root) as name:
        staging = Path(name)
        try:
            entries = resolve_jars(version, of, staging, get)
        except DistributionError as error:
            raise DistributionError(f"Kafka {version} is not available: {error}") from None
        for jar in entries:
            # Jars already in the cache are verified later like all others.
            if not (root / jar.relative).is_file():
                (root / jar.relative).parent.mkdir(exist_ok=True)
                shutil.move(staging / jar.relative, root / jar.relative)
    path = own_locks() / f"{of}-{version}.lock"
    replace_text(path, lock_text(f"{of}-{version}", entries, "on first use"))
    return path


def ivy_fetch(java: Java, on_file: Callable[[], None]) -> Fetch:
    """Fetches from the repository; `on_file` is called for each file."""
    return lambda modules, into: fetch(modules, java, into, on_file, transitive=True)


def resolve_jars(version: str, of: str, into: Path, get: Fetch) -> list[LockedJar]:
    """Fetches the jars of a version, or `of`; in classpath order. Raises DistributionError."""
    if of in ADDITIONAL:
        known = {(jar.group, jar.artifact) for jar in read_lock(version)}
        every = _fetch_jars([(KAFKA, ADDITIONAL[of], version)], into, get)
        return [jar for jar in every if (jar.group, jar.artifact) not in known]
    wanted = [(KAFKA, "kafka_2.13", version), (KAFKA, "kafka-tools", version)]
    entries = _fetch_jars(wanted, into, get)
    # Kafka's artifacts do not depend on a logging backend: Kafka's own distribution adds one too.
    return _fetch_jars([*wanted, _slf4j_binding(entries)], into, get)


def lock_text(name: str, entries: Sequence[LockedJar], made: str) -> str:
    return f"# {name}: group:artifact:version SHA-256, made {made}\n" + "".join(
        jar.line() + "\n" for jar in entries
    )


def _check_version(version: str) -> None:
    match = _VERSION.fullmatch(version)
    if match is None:
        raise UsageError(
            f"{version!r} is not a release of Kafka: write one such as {NEWEST_KAFKA} (or use --kafka-home)"
        )
    if (int(match[1]), int(match[2])) < release_of(OLDEST_KAFKA):
        raise UsageError(
            f"kaput does not support Kafka {version}: use {OLDEST_KAFKA} or newer (or --kafka-home)"
        )


def _fetch_jars(wanted: list[Module], into: Path, get: Fetch) -> list[LockedJar]:
    for path in _jars(into):
        path.unlink()  # left by an earlier fetch, perhaps of other versions
    get(wanted, into)
    entries = [_lock_entry(path) for path in _jars(into)]
    # Kafka's own jars come first, as in its distribution.
    return sorted(entries, key=lambda jar: (jar.group != KAFKA, jar.line()))


def _jars(into: Path) -> list[Path]:
    return [path for path in into.glob("*/*.jar") if path.parent.name != "cache"]


def _lock_entry(path: Path) -> LockedJar:
    words = path.stem.split("-")
    first = next(i for i, word in enumerate(words) if i and word[0].isdigit())
    return LockedJar(path.parent.name, "-".join(words[:first]), "-".join(words[first:]), sha256_of(path))


def _slf4j_binding(entries: Sequence[LockedJar]) -> Module:
    versions = {jar.artifact: jar.version for jar in entries}
    slf4j = versions.get("slf4j-api", "none")
    if not slf4j.startswith("1.7."):
        raise DistributionError(f"SLF4J {slf4j} needs a binding that kaput does not know")
    if "log4j-core" in versions:
        return (_LOG4J, "log4j-slf4j-impl", versions["log4j-core"])
    return ("org.slf4j", "slf4j-reload4j", slf4j)
