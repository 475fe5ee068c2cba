"""A cluster as its owner's files describe it: what a scenario takes over, and why it leaves out the rest.

Not here: how each kind of file is read (reading.py, compose.py, strimzi.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kaput.core import NEWEST_KAFKA, OLDEST_KAFKA
from kaput.errors import UsageError
from kaput.scenario.cluster import LAST_KAFKA_WITH_ZOOKEEPER, release_of
from kaput.scenario.source import FileKind

KIND = FileKind("description of a cluster", "kaput scenarios from --help")
LEAST_BROKERS = 3
OURS = "kaput sets its own"
_FIRST_WITHOUT_ZOOKEEPER = (4, 0)
# What differs on each node, or belongs to the machine: by the whole name, or by its beginning.
_NODES_OWN = {
    "allow.everyone.if.no.acl.found", "authorizer.class.name", "auto.include.jmx.reporter", "broker.id",
    "broker.id.generation.enable", "delegation.token.master.key", "delegation.token.secret.key",
    "early.start.listeners", "host.name", "inter.broker.listener.name", "listeners", "log.dir", "log.dirs",
    "metadata.log.dir", "node.id", "port", "process.roles", "reserved.broker.max.id", "super.users",
    "zookeeper.connect", "zookeeper.set.acl",
}  # fmt: skip
_NODES_OWN_PREFIXES = (
    "advertised.", "controller.listener.", "controller.quorum.bootstrap.", "controller.quorum.voters",
    "listener.", "metrics.jmx.", "password.encoder.", "remote.log.", "sasl.", "security.", "ssl.",
    "zookeeper.client", "zookeeper.metadata.migration.", "zookeeper.ssl.",
)  # fmt: skip
_PLUGINS_PREFIXES = (
    "client.quota.callback.", "config.providers", "confluent.", "cruise.control.", "kafka.metrics.",
    "principal.builder.", "rlmm.config.", "rsm.config.", "strimzi.",
)  # fmt: skip
# Classes of the owner's are not on this machine; those of Kafka, also by a short name such as uniform, are.
_CLASSES = re.compile(r"(?:^|\.)(?:class|classes|providers|reporters|interceptors?|assignors)(?:$|\.name$)")
_OF_A_PROVIDER = re.compile(r"\$\{[^}:]+:[^}]*\}")
_TEMPLATE = re.compile(r"\$\{[^}]*\}|\{\{.*\}\}|^\$[A-Za-z_]\w*$")
# All of Kafka's settings with these endings are whole numbers.
_WHOLE = re.compile(
    r"(?:^|[._])(?:(?:broker|node)\.id|replication\.factor|ms|bytes|seconds|minutes|hours|threads|replicas"
    r"|partitions|isr|size|requests)$"
)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


class Setting(NamedTuple):
    """A value, and where it is: FILE:LINE."""

    value: Any
    place: str


@dataclass
class DescribedCluster:
    """A cluster block and topics in the words of a scenario; `replaced`: what was not taken over, and why."""

    cluster: dict[str, Any] = field(default_factory=dict)
    topics: list[dict[str, Any]] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)

    def take(self, settings: Mapping[str, Setting]) -> None:
        """Takes over a broker's settings, but for the node's own. Raises UsageError for a wrong number."""
        config = self.cluster.setdefault("config", {})
        for name, setting in settings.items():
            text = str(setting.value).strip()
            reason = self._left_out(name, text)
            if reason in (None, OURS) and _WHOLE.search(name) and not _TEMPLATE.search(text):
                whole_number(name, setting)
            if reason is not None:
                self.replaced.append(f"{name}: {reason}")
            else:
                config[name] = setting.value if isinstance(setting.value, float) else _value(text)

    def _left_out(self, name: str, text: str) -> str | None:
        if is_nodes_own(name):
            return OURS
        if name == "broker.rack":
            return "each broker has another one; cluster.racks is for them"
        if name.startswith("zookeeper.") and self.cluster.get("mode") != "zookeeper":
            return "the cluster has no ZooKeeper"
        if name.startswith(_PLUGINS_PREFIXES):
            return "its plugin is not here"
        if _CLASSES.search(name) and not all(map(_is_kafkas, text.split(","))):
            return f"{text} is not here"
        if _OF_A_PROVIDER.search(text):
            return f"{text} is what a config provider knows, which is not here"
        if _TEMPLATE.search(text):
            return f"{text} is not filled in"
        return None if text else "it has no value"

    def set_kafka(self, version: str | None, where: str, *, zookeeper: bool) -> None:
        """Takes over Kafka's version, None if there is none, and where the metadata is; `where`: in the file,
        for messages.
        """
        if zookeeper:
            self.cluster["mode"] = "zookeeper"
        if version is None or not _VERSION.fullmatch(version):
            default = LAST_KAFKA_WITH_ZOOKEEPER if zookeeper else NEWEST_KAFKA
            self.replaced.append(f"{where}: no version of Kafka; the run has {default}")
            return
        version = version if version.count(".") > 1 else f"{version}.0"
        if zookeeper and release_of(version) >= _FIRST_WITHOUT_ZOOKEEPER:
            raise UsageError(f"{where}: Kafka {version} has no ZooKeeper mode, and the file has ZooKeeper")
        self.cluster["kafka"] = version
        if release_of(version) < release_of(OLDEST_KAFKA):
            self.replaced.append(
                f"{where}: kaput runs Kafka {OLDEST_KAFKA} and newer: before a run, raise cluster.kafka"
            )

    def set_zookeepers(self, count: int) -> None:
        """Takes over the size of ZooKeeper's ensemble."""
        if count == LEAST_BROKERS:
            self.cluster["zookeepers"] = count
        elif count > 1:
            self.replaced.append(f"{count} ZooKeeper nodes: the run has one")

    def set_controllers(self, dedicated: int, combined: int) -> None:
        """Takes over who votes: nodes that are only controllers, and brokers that are controllers as well."""
        ours = min(LEAST_BROKERS, self.cluster["brokers"])
        if dedicated:
            self.cluster["controllers"] = dedicated + combined
            if combined:
                self.replaced.append(
                    f"voters: {combined} of {dedicated + combined} are brokers; in the run, none is"
                )
        elif combined and combined != ours:
            self.replaced.append(f"voters: {combined} of the brokers; in the run, {ours}")

    def set_racks(self, racks: list[str]) -> None:
        """Takes over the racks of the brokers, in their order; names have fewer characters here."""
        self.cluster["racks"] = [re.sub(r"[^A-Za-z0-9._-]", "-", each) for each in racks]
        for theirs, ours in dict(zip(racks, self.cluster["racks"], strict=True)).items():
            if theirs != ours:
                self.replaced.append(f"rack {theirs}: its name is {ours}")


def is_nodes_own(name: str) -> bool:
    """Whether a setting differs on each node, or belongs to the machine."""
    return name in _NODES_OWN or name.startswith(_NODES_OWN_PREFIXES)


def whole_number(name: str, setting: Setting) -> int:
    """The value. Raises UsageError with its place."""
    text = str(setting.value).strip()
    if isinstance(setting.value, bool) or not _INTEGER.fullmatch(text):
        comment = "; a comment has a line of its own" if " #" in text else ""
        raise UsageError(f"{setting.place}: {name}={text} is not a whole number{comment}")
    return int(text)


def needed_brokers(settings: Mapping[str, Setting]) -> Iterator[int]:
    """How many brokers each setting needs."""
    for name, more in (
        ("default.replication.factor", 0),
        ("offsets.topic.replication.factor", 0),
        ("transaction.state.log.replication.factor", 0),
        ("share.coordinator.state.topic.replication.factor", 0),
        ("min.insync.replicas", 1),
    ):
        text = str(settings[name].value).strip() if name in settings else ""
        yield int(text) + more if _INTEGER.fullmatch(text) else 1


def quorum(settings: Mapping[str, Setting]) -> set[str]:
    """The nodes with the cluster's metadata, by host and port: ZooKeeper's, or controllers."""
    if "zookeeper.connect" in settings and "process.roles" not in settings:
        hosts, slash, root = str(settings["zookeeper.connect"].value).partition("/")
        return {each.strip() + slash + root for each in hosts.split(",") if each.strip()}
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        if name in settings:
            voters = str(settings[name].value).split(",")
            return {each.strip().rpartition("@")[2] for each in voters if each.strip()}
    return set()


def _is_kafkas(name: str) -> bool:
    return name.strip().startswith("org.apache.kafka.") or "." not in name


def _value(text: str) -> bool | int | str:
    """A setting as YAML has it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if _INTEGER.fullmatch(text) else text
