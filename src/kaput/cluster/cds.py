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

from kaput.cache import cache_dir, exclusive
from kaput.cluster.distribution import Distribution
from kaput.cluster.jvm import PROFILE, java_command
from kaput.cluster.node import Node
from kaput.cluster.ports import HOST, Ports
from kaput.cluster.properties import Place, write_properties
from kaput.cluster.requests import metadata
from kaput.cluster.storage import format_storage, new_id
from kaput.cluster.wire import Endpoint, Unanswered, ask
from kaput.errors import BrokerError, LabError
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster as Spec

_START_TIMEOUT_S = 60.0
_DUMP_TIMEOUT_S = 120.0


def ensure_archive(distribution: Distribution, java: Java, note: Callable[[str], None]) -> Path | None:
    """The archive for these jars and this Java, made now if it is missing; None where it cannot be made."""
    root, key = cache_dir("cds"), _key(distribution, java)
    unable = root / f"{key}.unable"
    if (archive := find_archive(distribution, java)) or unable.exists():
        return archive
    with exclusive(root / ".lock", 2 * _DUMP_TIMEOUT_S):
        if archive := find_archive(distribution, java):
            return archive  # another kaput made it while this one waited
        note("preparing quick starts of brokers (once)")
        try:
            _make(root, key, distribution, java)
        except LabError as error:
            note(f"brokers will start slowly: {error}")
            return None
        archive = find_archive(distribution, java)
        if archive is None:
            unable.touch()  # the broker was well, but this Java makes no archives: once is enough
    return archive


def find_archive(distribution: Distribution, java: Java) -> Path | None:
    """The archive, if there is a whole one. Its name has its size: one cut short crashes the JVM."""
    for archive in cache_dir("cds").glob(f"{_key(distribution, java)}-*.jsa"):
        if archive.stem.endswith(f"-{archive.stat().st_size}"):
            return archive
    return None


def _key(distribution: Distribution, java: Java) -> str:
    made_for = [str(java.path.resolve()), java.build, distribution.classpath, distribution.id, *PROFILE]
    return hashlib.sha256("\n".join(made_for).encode()).hexdigest()[:16]


def _make(root: Path, key: str, distribution: Distribution, java: Java) -> None:
    """One broker, alone, started and stopped in good order; the JVM writes the archive as it exits."""
    with tempfile.TemporaryDirectory(prefix=".making-", dir=root) as name, Owner() as owner:
        ports = Ports()
        made = Path(name) / "made.jsa"
        try:
            broker, controller = ports.reserve(2)
            place = Place(1, "combined", HOST, broker, controller, Path(name) / "1")
            write_properties(place, [place], Spec(brokers=1))
            format_storage(place.data, place.id, new_id(), distribution, java)
            flags = [f"-XX:ArchiveClassesAtExit={made}"]
            command = java_command(java, distribution, "kafka.Kafka", [place.properties], flags=flags)
            node = Node(owner, place, command)
            node.start()
            _await_answer(node, Endpoint(HOST, broker))
            node.terminate(_DUMP_TIMEOUT_S)
        finally:
            ports.close()
        if made.is_file():
            made.chmod(0o644)
            made.replace(root / f"{key}-{made.stat().st_size}.jsa")


def _await_answer(node: Node, endpoint: Endpoint) -> None:
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
