"""A Kafka distribution: its jars, fetched once and verified against a lock file; and command lines of JVMs
with them: small heaps, quick starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kaput.cache import cache_dir, exclusive
from kaput.cluster.ivy import TOTAL_TIMEOUT_S, fetch
from kaput.cluster.lock import LockedJar, create_lock, find_lock, ivy_fetch, read_lock, sha256_of
from kaput.errors import DistributionError, UsageError
from kaput.evidence.folder import replace_text
from kaput.java import Java

Progress = Callable[[int, int], None]  # (files present, files in total)
_TYPICAL_JARS = 100  # of a Kafka version, for the progress bar until their number is known


@dataclass(frozen=True)
class Distribution:
    """The jars of one Kafka version, in classpath order; `id` changes if a jar changes."""

    version: str
    jars: tuple[Path, ...]
    id: str
    home: Path | None = None  # the installation that the jars come from, if any

    @property
    def major(self) -> int:
        """4 for 4.3.1."""
        return int(self.version.partition(".")[0])

    @property
    def release(self) -> tuple[int, int]:
        """(4, 3) for 4.3.1."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def classpath(self) -> str:
        return os.pathsep.join(map(str, self.jars))

    def has_class(self, name: str) -> bool:
        """Whether one of Kafka's own jars has this class: Kafka moves programs between packages."""
        return _has_class(self.jars, name)


@cache
def _has_class(jars: tuple[Path, ...], name: str) -> bool:
    entry = name.replace(".", "/") + ".class"
    for jar in jars:
        # Only Kafka's own jars: opening all of them takes longer than most programs.
        if jar.name.startswith(("kafka", "connect")):
            with zipfile.ZipFile(jar) as opened:
                if entry in opened.NameToInfo:
                    return True
    return False


def _no_progress(done: int, total: int) -> None:
    """The default `progress`: shows nothing."""


def _no_note(text: str) -> None:
    """The default `note`: shows nothing."""


def resolve(
    version: str, java: Java, progress: Progress = _no_progress, note: Callable[[str], None] = _no_note
) -> Distribution:
    """A version's locked jars, fetched if missing. `note`: for a new lock file. Raises DistributionError."""
    locked = _lock_entries(version, "kafka", java, progress, note)
    jars = provide(f"Kafka {version}", locked, java, progress)
    return Distribution(version, jars, _hash_of(locked))


def cached(version: str) -> Distribution | None:
    """A version's locked jars if all of them are in the cache; fetches nothing."""
    locked = read_lock(version, "kafka") if find_lock(version, "kafka") is not None else []
    root = cache_dir("jars")
    if not locked or _missing_jars(locked, root):
        return None
    return Distribution(version, tuple(root / jar.relative for jar in locked), _hash_of(locked))


def has_additional_jars(version: str, of: str) -> bool:
    """Whether the jars of the lock file `of` are in the cache; fetches nothing."""
    return find_lock(version, of) is not None and not _missing_jars(read_lock(version, of), cache_dir("jars"))


def with_additional_jars(
    distribution: Distribution,
    of: str,
    java: Java,
    progress: Progress = _no_progress,
    note: Callable[[str], None] = _no_note,
) -> Distribution:
    """Adds the jars of the lock file `of`, which an installation already has. Raises DistributionError."""
    if distribution.home is not None:
        return distribution
    locked = _lock_entries(distribution.version, of, java, progress, note)
    jars = provide(f"{of} of Kafka {distribution.version}", locked, java, progress)
    return Distribution(distribution.version, (*distribution.jars, *jars), f"{distribution.id}-{of}")


def _lock_entries(
    version: str, of: str, java: Java, progress: Progress, note: Callable[[str], None]
) -> list[LockedJar]:
    """The entries of the lock file, which is created if missing."""
    if find_lock(version, of) is None:
        done = 0

        def on_file() -> None:
            nonlocal done
            done += 1
            progress(done, max(done, _TYPICAL_JARS))

        with exclusive(cache_dir("jars") / ".lock", TOTAL_TIMEOUT_S):
            # Another kaput may have created it while this one waited.
            if find_lock(version, of) is None:
                path = create_lock(version, of, ivy_fetch(java, on_file))
                note(
                    f"kaput has no lock file for Kafka {version}: its {len(read_lock(version, of))} jars are "
                    f"trusted as downloaded now, and locked in {path}"
                )
    return read_lock(version, of)


def provide(
    what: str, locked: list[LockedJar], java: Java, progress: Progress = _no_progress
) -> tuple[Path, ...]:
    """Locked jars from the cache; fetches missing ones. Raises DistributionError."""
    root = cache_dir("jars")
    if _missing_jars(locked, root):
        with exclusive(root / ".lock", TOTAL_TIMEOUT_S):
            # Another kaput may have fetched them while this one waited.
            missing = _missing_jars(locked, root)
            if missing:
                _fetch(what, missing, java, root, progress)
    _verify(locked, root, root / f".verified-{_hash_of(locked)}.json")
    return tuple(root / jar.relative for jar in locked)


def _hash_of(locked: list[LockedJar]) -> str:
    return hashlib.sha256("\n".join(jar.line() for jar in locked).encode()).hexdigest()[:16]


def from_home(home: Path) -> Distribution:
    """The jars of a Kafka installation. Raises UsageError."""
    jars = tuple(sorted(home.absolute().glob("libs/*.jar")))
    versions = [m[1] for jar in jars if (m := re.fullmatch(r"kafka_[\d.]+-(\d[\w.-]*)\.jar", jar.name))]
    if not versions:
        raise UsageError(f"{home} is not a Kafka installation: it has no libs/kafka_*.jar")
    stats = [(jar, jar.stat()) for jar in jars]
    identity = "\n".join(f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar, stat in stats)
    return Distribution(
        versions[0], jars, hashlib.sha256(identity.encode()).hexdigest()[:16], home.absolute()
    )


def _missing_jars(locked: list[LockedJar], root: Path) -> list[LockedJar]:
    return [jar for jar in locked if not (root / jar.relative).is_file()]


def _fetch(what: str, missing: list[LockedJar], java: Java, root: Path, progress: Progress) -> None:
    """Fetches into a temporary directory: only complete, verified jars get into the cache."""
    done = 0

    def on_file() -> None:
        nonlocal done
        done += 1
        progress(min(done, len(missing)), len(missing))

    progress(0, len(missing))
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=root) as name:
        staging = Path(name)
        try:
            fetch([(jar.group, jar.artifact, jar.version) for jar in missing], java, staging, on_file)
        except DistributionError as error:
            raise DistributionError(f"{what}: {error}") from None
        finally:
            _move_to_cache(missing, staging, root)
    progress(len(missing), len(missing))


def _move_to_cache(missing: list[LockedJar], staging: Path, root: Path) -> None:
    for jar in missing:
        fetched = staging / jar.relative
        if fetched.is_file():
            _check_hash(jar, fetched, f"{fetched.name} from the repository")
            (root / jar.relative).parent.mkdir(exist_ok=True)
            shutil.move(fetched, root / jar.relative)


def _verify(locked: list[LockedJar], root: Path, stamp: Path) -> None:
    """Hashes only jars whose size or time changed since they were last verified."""
    known = _read_stamp(stamp)
    now = {}
    for jar in locked:
        stat = (root / jar.relative).stat()
        now[str(jar.relative)] = [stat.st_size, stat.st_mtime_ns]
        if known.get(str(jar.relative)) != now[str(jar.relative)]:
            _check_hash(jar, root / jar.relative, f"{root / jar.relative} (delete it to fetch it again)")
    if now != known:
        replace_text(stamp, json.dumps(now))


def _read_stamp(stamp: Path) -> dict[str, list[int]]:
    try:
        known = json.loads(stamp.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _check_hash(jar: LockedJar, path: Path, what: str) -> None:
    digest = sha256_of(path)
    if digest != jar.sha256:
        raise DistributionError(
            f"{what} is not {jar.group}:{jar.artifact}:{jar.version}: expected SHA-256 {jar.sha256}, "
            f"found {digest}"
        )


_DIRECTORY = Path(__file__).parent

NO_MAIN_CLASS = "Could not find or load main class"  # in the output of a JVM
# A class archive only fits the garbage collector that it was created with: both use these flags.
PROFILE = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java_command(
    java: Java,
    distribution: Distribution,
    main: str,
    args: Sequence[str | Path],
    *,
    archive: Path | None = None,
    heap: tuple[str, str] = ("-Xms64m", "-Xmx256m"),
    flags: Sequence[str] = (),
) -> list[str]:
    """`java ... main args`. The JVM ignores an `archive` that is broken or from another build."""
    shared = [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive is not None else []
    return [
        str(java.path),
        *heap,
        *PROFILE,
        "-XX:-UsePerfData",  # its file in /tmp would outlive a SIGKILL
        "-XX:+ExitOnOutOfMemoryError",  # a broker without memory exits instead of lingering
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={_DIRECTORY / 'log4j2.xml'}",
        f"-Dlog4j.configuration=file:{_DIRECTORY / 'log4j.properties'}",
        "-Dlog4j2.disable.jmx=true",
        *shared,
        *flags,
        "-cp",
        distribution.classpath,
        main,
        *map(str, args),
    ]
