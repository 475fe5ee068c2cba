"""The archive of loaded classes (AppCDS) that halves the start of every node: made once, then shared.

Made by one clean run of a broker, for each build of Java and each set of jars. Whatever is wrong with an
archive, the JVM passes over it: nothing depends on it but time.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kaput.cluster.cache import cache_dir, exclusive
from kaput.cluster.distribution import Distribution
from kaput.cluster.java import Java
from kaput.cluster.jvm import PROFILE, java_command
from kaput.cluster.node import Node
from kaput.cluster.ports import HOST, Ports
from kaput.cluster.properties import Place, write_properties
from kaput.cluster.requests import metadata
from kaput.cluster.storage import format_storage, new_id
from kaput.cluster.wire import Unanswered, ask
from kaput.errors import BrokerError
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster as Spec

_START_TIMEOUT_S = 60.0
_DUMP_TIMEOUT_S = 120.0


def ensure_archive(distribution: Distribution, java: Java, note: Callable[[str], None]) -> Path | None:
    """The archive for these jars and this Java, made now if it is missing; None where it cannot be made."""
    archive = archive_path(distribution, java)
    failed = archive.with_suffix(".failed")
    if archive.is_file():
        return archive
    if failed.exists():
        return None
    with exclusive(archive.with_name(".lock"), 2 * _DUMP_TIMEOUT_S):
        if not archive.is_file():
            note("preparing quick starts of brokers (once)")
            _make(archive, distribution, java)
    if not archive.is_file():
        failed.touch()  # tried in vain: once is enough
        return None
    return archive


def archive_path(distribution: Distribution, java: Java) -> Path:
    """Where the archive is, or would be."""
    made_for = [str(java.path.resolve()), java.build, distribution.classpath, distribution.id, *PROFILE]
    key = hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:16]
    return cache_dir("cds") / f"{key}.jsa"


def _make(archive: Path, distribution: Distribution, java: Java) -> None:
    """One broker, alone, started and stopped in good order; the JVM writes the archive as it exits."""
    with tempfile.TemporaryDirectory(prefix=".making-", dir=archive.parent) as name, Owner() as owner:
        ports = Ports()
        made = Path(name) / "made.jsa"
        try:
            broker, controller = ports.reserve(2)
            place = Place(1, "combined", broker, controller, Path(name) / "1")
            write_properties(place, [place], Spec(brokers=1))
            format_storage(place.data, place.id, new_id(), distribution, java)
            flags = [f"-XX:ArchiveClassesAtExit={made}"]
            command = java_command(java, distribution, "kafka.Kafka", [place.properties], flags=flags)
            node = Node(owner, place, command)
            node.start()
            _await_answer(node, (HOST, broker))
            node.terminate(_DUMP_TIMEOUT_S)
        finally:
            ports.close()
        if made.is_file():
            made.chmod(0o644)
            made.replace(archive)


def _await_answer(node: Node, endpoint: tuple[str, int]) -> None:
    limit = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < limit:
        if not node.running:
            raise BrokerError(node.deaths[-1] if node.deaths else f"{node.title} ended")
        try:
            if ask(endpoint, metadata(), 1.0).brokers:
                return
        except Unanswered:
            time.sleep(0.1)
    raise BrokerError(f"a first broker did not answer in time; its log ends:\n{node.log_tail()}")
