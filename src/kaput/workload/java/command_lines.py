"""The command lines of Kafka's own clients: KaputProducer.java, and the Verifiable consumers.

Options on a tool's command line override its settings file. Not here: reading their output
(command/producer.py, member.py).
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kaput.cluster.access import OPEN, AccessOf, write_secret
from kaput.cluster.cds import find_archive
from kaput.cluster.distribution import Distribution, java_command, resolve
from kaput.errors import DistributionError
from kaput.java import Java, find_java
from kaput.java_properties import properties_text
from kaput.scenario.clients import java_settings, user_of
from kaput.scenario.model import Config, Group, Producers

_HERE = Path(__file__).parent
_TOOLS = "org.apache.kafka.tools."
_HEAP = ("-Xms16m", "-Xmx96m")
_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_CLIENTS = "org.apache.kafka.clients."
_SESSION_MS = 45_000  # Java's default; the tool's own default differs
_COORDINATOR_MS = 270_000
_DELIVERY_MS, _SLACK_MS = 120_000, 30_000  # Java's default, and a margin


class JavaTools:
    """Kafka's clients of any version. `distribution`: the cluster's jars, for its own version. `access`: a
    user's credentials; `private` makes a temporary folder for them.
    """

    def __init__(
        self,
        scratch: Path,
        distribution: Distribution | None,
        version: str,
        access: AccessOf = lambda cluster, user: OPEN,
        private: Callable[[], Path] = lambda: Path(tempfile.mkdtemp()),
    ) -> None:
        self._scratch, self._own, self._version = scratch, distribution, version
        self._access, self._private = access, private

    def producer(self, version: str | None) -> list[str]:
        """The command line of KaputProducer (settings on stdin). Raises DistributionError, JavaError."""
        java = find_java()
        distribution = self._distribution(version, java)
        with_ours = replace(distribution, jars=(*distribution.jars, _HERE))
        return self._jvm(java, with_ours, find_archive(distribution, java), "KaputProducer", [])

    def member(self, name: str, servers: str, member: str, group: Group) -> list[str]:
        """The command line of a VerifiableConsumer. Raises DistributionError, JavaError."""
        config = group.config
        arguments = ["--topic", group.topics[0], "--bootstrap-server", servers, "--group-id", group.id]
        arguments += ["--reset-policy", str(config.get("auto.offset.reset", "earliest")), "--verbose"]
        if group.type == "classic":
            arguments += ["--session-timeout", str(config.get("session.timeout.ms", _SESSION_MS))]
        else:
            arguments += ["--group-protocol", "consumer"]
            if "group.remote.assignor" in config:
                arguments += ["--group-remote-assignor", str(config["group.remote.assignor"])]
        strategy = config.get("partition.assignment.strategy")
        if group.assignor is not None:
            strategy = f"{_CLIENTS}consumer.{_ASSIGNORS[group.assignor]}"
        if strategy is not None:
            arguments += ["--assignment-strategy", str(strategy)]
        if instance := group.instance_of(member):
            arguments += ["--group-instance-id", instance]
        if group.commit == "auto":
            arguments.append("--enable-autocommit")
        settings = {"client.id": f"kaput-{group.id}-{member}", "isolation.level": "read_committed", **config}
        return self._command("VerifiableConsumer", name, settings, arguments, group)

    def share_member(self, name: str, servers: str, member: str, group: Group) -> list[str]:
        """The command line of a VerifiableShareConsumer. Raises DistributionError, JavaError."""
        arguments = ["--topic", group.topics[0], "--bootstrap-server", servers, "--group-id", group.id]
        settings = {"client.id": f"kaput-{group.id}-{member}", **group.config}
        return self._command("VerifiableShareConsumer", name, settings, [*arguments, "--verbose"], group)

    def _command(
        self, tool: str, name: str, settings: Config, arguments: list[str], group: Group
    ) -> list[str]:
        java = find_java()
        distribution = self._distribution(group.client_version, java)
        credentials = self._access(group.cluster, user_of(settings)).properties
        path = (self._private() if credentials else self._scratch) / f"{name}.properties"
        path.unlink(missing_ok=True)
        write_secret(path, properties_text({**java_settings(settings), **credentials}))
        words = [*arguments, _file_option(distribution, tool), str(path)]
        return self._jvm(java, distribution, find_archive(distribution, java), f"{_TOOLS}{tool}", words)

    def _jvm(
        self, java: Java, distribution: Distribution, archive: Path | None, main: str, words: list[str]
    ) -> list[str]:
        return java_command(
            java,
            distribution,
            main,
            words,
            archive=archive,
            heap=_HEAP,
            flags=[
                f"-Dlog4j2.configurationFile={_HERE / 'log4j2.xml'}",
                f"-Dlog4j.configuration=file:{_HERE / 'log4j.properties'}",
                "-Dfile.encoding=UTF-8",
                "-Dstdout.encoding=UTF-8",
                "-Duser.language=en",  # digits are 0 to 9
            ],
        )

    def _distribution(self, version: str | None, java: Java) -> Distribution:
        if self._own is not None and version in (None, self._own.version):
            return self._own
        return resolve(version or self._version, java)


def patience_ms(spec: Producers) -> int:
    """How long a producer may print nothing: at least as long as it may wait for its last outcome, or for a
    coordinator (KaputProducer.java: two calls of at most PATIENCE_MS and max.block.ms).
    """
    given = str(spec.config.get("delivery.timeout.ms", _DELIVERY_MS))
    delivery_ms = int(given) if given.isdecimal() else _DELIVERY_MS
    return max(spec.patience, delivery_ms + _SLACK_MS, _COORDINATOR_MS if spec.transactions else 0)


def _file_option(distribution: Distribution, tool: str) -> str:
    """The option for the settings file, which KIP-1147 renamed. Raises DistributionError."""
    entry = f"{_TOOLS}{tool}".replace(".", "/") + ".class"
    for jar in distribution.jars:
        if jar.name.startswith("kafka-tools"):
            with zipfile.ZipFile(jar) as opened:
                if entry in opened.NameToInfo:
                    new = b"--command-config" in opened.read(entry)
                    return "--command-config" if new else "--consumer.config"
    raise DistributionError(f"Kafka {distribution.version} has no {tool}")
