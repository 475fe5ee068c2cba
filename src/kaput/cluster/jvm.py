"""Command lines of JVMs: small heaps, quick starts. The small-lab profile, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kaput.cluster.distribution import Distribution
from kaput.java import Java

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
