"""Makes the lock files of a Kafka version: resolves it with all that it needs, and hashes every jar.

    .venv/bin/python scripts/lock_jars.py 4.3.1
    .venv/bin/python scripts/lock_jars.py 4.3.1 mirror

The second one has what MirrorMaker needs beside the first one's. A maintainer's tool, run once a version; its
result is committed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from kaput.cluster.ivy import fetch
from kaput.cluster.lock import LOCKS, LockedJar, read_lock, sha256_of
from kaput.java import find_java

KAFKA = "org.apache.kafka"
LOG4J = "org.apache.logging.log4j"


MORE = {"mirror": "connect-mirror"}


def main(version: str, more: str | None = None) -> None:
    """Writes src/kaput/cluster/locks/kafka-VERSION.lock, or that of one of MORE."""
    if more is not None:
        known = {(jar.group, jar.artifact) for jar in read_lock(version)}
        every = resolve([(KAFKA, MORE[more], version)])
        write(f"{more}-{version}", [jar for jar in every if (jar.group, jar.artifact) not in known])
        return
    wanted = [(KAFKA, "kafka_2.13", version), (KAFKA, "kafka-tools", version)]
    found = resolve(wanted)
    # Kafka leaves open what its logging goes through: its own distribution adds the binding as well.
    found = resolve([*wanted, binding(found)])
    write(f"kafka-{version}", found)


def write(name: str, found: list[LockedJar]) -> None:
    """One lock file."""
    # Kafka's own jars come first, as in its distribution.
    found.sort(key=lambda jar: (jar.group != KAFKA, jar.line()))
    path = LOCKS / f"{name}.lock"
    path.parent.mkdir(exist_ok=True)
    header = f"# {name}: group:artifact:version SHA-256, made by scripts/lock_jars.py\n"
    path.write_text(header + "".join(jar.line() + "\n" for jar in found))
    print(f"{path}: {len(found)} jars")


def resolve(wanted: list[tuple[str, str, str]]) -> list[LockedJar]:
    """Everything that `wanted` needs at run time, itself included."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name) / "jars"
        fetch(wanted, find_java(), directory, lambda: print(".", end="", flush=True), transitive=True)
        print()
        jars = sorted(p for p in directory.glob("*/*.jar") if p.parent.name != "cache")
        return [lock(path) for path in jars]


def lock(path: Path) -> LockedJar:
    """A fetched GROUP/ARTIFACT-VERSION.jar as an entry."""
    words = path.stem.split("-")
    first = next(i for i, word in enumerate(words) if i and word[0].isdigit())
    return LockedJar(path.parent.name, "-".join(words[:first]), "-".join(words[first:]), sha256_of(path))


def binding(found: list[LockedJar]) -> tuple[str, str, str]:
    """What carries SLF4J's messages to the log4j that this version comes with."""
    versions = {jar.artifact: jar.version for jar in found}
    if not versions["slf4j-api"].startswith("1.7."):
        raise SystemExit(f"SLF4J {versions['slf4j-api']} needs another binding: extend binding()")
    if "log4j-core" in versions:
        return (LOG4J, "log4j-slf4j-impl", versions["log4j-core"])
    return ("org.slf4j", "slf4j-reload4j", versions["slf4j-api"])


if __name__ == "__main__":
    main(*sys.argv[1:])
