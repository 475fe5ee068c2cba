"""Creates lock files: resolves a Kafka version with its dependencies, and hashes every jar.

Lock files of the versions that kaput is tested with are created by scripts/lock_jars.py and come with kaput.
For any other version (from 3.7 on) one is created on first use in the user's cache: the repository is trusted
then, and later downloads must match. Its place: distribution.py uses it if there is no lock file.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kaput.cache import cache_dir
from kaput.cluster.ivy import fetch
from kaput.cluster.lock import LockedJar, own_locks, read_lock, sha256_of
from kaput.core import OLDEST_KAFKA
from kaput.errors import DistributionError
from kaput.java import Java
from kaput.scenario.cluster import release_of

KAFKA = "org.apache.kafka"
ADDITIONAL = {"mirror": "connect-mirror"}  # lock files of additional jars, with their artifacts
_LOG4J = "org.apache.logging.log4j"
_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+")
Module = tuple[str, str, str]  # (group, artifact, version)
Fetch = Callable[[Sequence[Module], Path], None]  # fetches these with their dependencies into a directory


def create_lock(version: str, of: str, get: Fetch) -> Path:
    """Creates a version's lock file in the user's cache, and fetches its jars. Raises DistributionError.

    The caller holds the cache's lock.
    """
    _check_version(version)
    root = cache_dir("jars")
    with tempfile.TemporaryDirectory(prefix=".locking-", dir=root) as name:
        staging = Path(name)
        try:
            found = resolve_jars(version, of, staging, get)
        except DistributionError as error:
            raise DistributionError(f"Kafka {version} is not available: {error}") from None
        for jar in found:
            # Jars already in the cache are verified later like all others.
            if not (root / jar.relative).is_file():
                (root / jar.relative).parent.mkdir(exist_ok=True)
                shutil.move(staging / jar.relative, root / jar.relative)
    path = own_locks() / f"{of}-{version}.lock"
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(lock_text(f"{of}-{version}", found, "on first use"))
    temporary.replace(path)
    return path


def ivy_fetch(java: Java, on_file: Callable[[], None]) -> Fetch:
    """Fetches from the repository; `on_file` is called for each file."""
    return lambda modules, into: fetch(modules, java, into, on_file, transitive=True)


def resolve_jars(version: str, of: str, into: Path, get: Fetch) -> list[LockedJar]:
    """Fetches the jars of a version, or its additional jars `of`, into a directory; in classpath order.
    Raises DistributionError.
    """
    if of in ADDITIONAL:
        known = {(jar.group, jar.artifact) for jar in read_lock(version)}
        every = _fetch_jars([(KAFKA, ADDITIONAL[of], version)], into, get)
        return [jar for jar in every if (jar.group, jar.artifact) not in known]
    wanted = [(KAFKA, "kafka_2.13", version), (KAFKA, "kafka-tools", version)]
    found = _fetch_jars(wanted, into, get)
    # Kafka's artifacts do not depend on a logging backend: Kafka's own distribution adds one too.
    return _fetch_jars([*wanted, _slf4j_binding(found)], into, get)


def lock_text(name: str, found: Sequence[LockedJar], made: str) -> str:
    """The text of a lock file."""
    return f"# {name}: group:artifact:version SHA-256, made {made}\n" + "".join(
        jar.line() + "\n" for jar in found
    )


def _check_version(version: str) -> None:
    match = _VERSION.fullmatch(version)
    if match is None or (int(match[1]), int(match[2])) < release_of(OLDEST_KAFKA):
        raise DistributionError(
            f"kaput does not support Kafka {version}: use {OLDEST_KAFKA} or newer (or --kafka-home)"
        )


def _fetch_jars(wanted: list[Module], into: Path, get: Fetch) -> list[LockedJar]:
    for path in _jars(into):
        path.unlink()  # left by an earlier fetch, perhaps of other versions
    get(wanted, into)
    found = [_lock_entry(path) for path in _jars(into)]
    # Kafka's own jars come first, as in its distribution.
    return sorted(found, key=lambda jar: (jar.group != KAFKA, jar.line()))


def _jars(into: Path) -> list[Path]:
    return [path for path in into.glob("*/*.jar") if path.parent.name != "cache"]


def _lock_entry(path: Path) -> LockedJar:
    """A fetched GROUP/ARTIFACT-VERSION.jar as an entry."""
    words = path.stem.split("-")
    first = next(i for i, word in enumerate(words) if i and word[0].isdigit())
    return LockedJar(path.parent.name, "-".join(words[:first]), "-".join(words[first:]), sha256_of(path))


def _slf4j_binding(found: Sequence[LockedJar]) -> Module:
    """The binding from SLF4J to this version's log4j."""
    versions = {jar.artifact: jar.version for jar in found}
    slf4j = versions.get("slf4j-api", "none")
    if not slf4j.startswith("1.7."):
        raise DistributionError(f"SLF4J {slf4j} needs a binding that kaput does not know")
    if "log4j-core" in versions:
        return (_LOG4J, "log4j-slf4j-impl", versions["log4j-core"])
    return ("org.slf4j", "slf4j-reload4j", slf4j)
