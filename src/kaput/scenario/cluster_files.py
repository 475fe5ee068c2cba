"""A cluster as the user's own files describe it: server.properties, a Compose file, or Strimzi's resources.

What one machine can have is taken over: the number of brokers and controllers, the version, racks, settings,
topics. What it cannot (addresses, paths, certificates, plugins) is listed, and kaput's own takes its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kaput.core import NEWEST_KAFKA
from kaput.errors import UsageError
from kaput.java_properties import read_properties
from kaput.scenario.source import FileKind, read

CONFIG_FILE = "config-file"
_KIND = FileKind("description of a cluster", "kaput scenarios from --help")
_LEAST_BROKERS = 3
_OLDEST_KRAFT_ONLY = (4, 0)
# What differs on each node, or belongs to the machine: by the whole name, or by its beginning.
_NODES_OWN = {
    "allow.everyone.if.no.acl.found", "alter.config.policy.class.name", "authorizer.class.name",
    "auto.include.jmx.reporter", "broker.id", "broker.id.generation.enable", "broker.rack",
    "client.quota.callback.class", "create.topic.policy.class.name", "delegation.token.master.key",
    "delegation.token.secret.key", "early.start.listeners", "host.name", "inter.broker.listener.name",
    "kafka.metrics.reporters", "listeners", "log.dir", "log.dirs", "metadata.log.dir", "metric.reporters",
    "node.id", "port", "principal.builder.class", "process.roles", "replica.selector.class",
    "reserved.broker.max.id", "super.users", "zookeeper.connect", "zookeeper.set.acl",
}  # fmt: skip
_NODES_OWN_PREFIXES = (
    "advertised.", "confluent.", "controller.listener.", "controller.quorum.bootstrap.",
    "controller.quorum.voters", "listener.", "metrics.jmx.", "password.encoder.", "remote.log.",
    "rlmm.config.", "rsm.config.", "sasl.", "security.", "ssl.", "zookeeper.client", "zookeeper.ssl.",
)  # fmt: skip
# Variables of an image's own scripts that are no settings.
_NOT_SETTINGS = (
    "cluster.id", "heap.opts", "jmx.", "jvm.", "kraft.", "log4j.", "opts", "tools.",
)  # fmt: skip
# Of a Kafka resource of Strimzi.
_STRIMZIS = (
    "metadataVersion", "listeners", "authorization", "storage", "resources", "jvmOptions", "metricsConfig",
    "logging", "tieredStorage", "quotas",
)  # fmt: skip
_COMPOSE_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?::?-([^}]*))?[^}]*\}|\$(\w+)")
_IMAGE = re.compile(r"(?:^|/)(?:kafka|kafka-native|cp-kafka|cp-server)(?::(?P<tag>[\w.-]+))?(?:@|$)")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_RELEASE = re.compile(r"\d+\.\d+")  # 3.7 is 3.7.0
_CONFLUENT = re.compile(r"(\d+)\.(\d+)(?!\d)")


@dataclass
class DescribedCluster:
    """A cluster block and topics in the words of a scenario; `replaced`: what was not taken over, and why."""

    cluster: dict[str, Any] = field(default_factory=dict)
    topics: list[dict[str, Any]] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)

    def take(self, settings: Mapping[str, Any]) -> None:
        """Takes over a broker's settings, but for the node's own."""
        config = self.cluster.setdefault("config", {})
        for name, value in settings.items():
            if name in _NODES_OWN or name.startswith(_NODES_OWN_PREFIXES):
                self.replaced.append(f"{name}: kaput sets its own")
            else:
                config[name] = _value(str(value)) if not isinstance(value, bool | int | float) else value

    def set_version(self, version: str, where: str) -> None:
        """Takes over Kafka's version; `where` it stands, if it is none."""
        if _VERSION.fullmatch(version) or _RELEASE.fullmatch(version):
            self.cluster["kafka"] = version if _VERSION.fullmatch(version) else f"{version}.0"
        else:
            self.replaced.append(f"{where}: no version of Kafka; the run has {NEWEST_KAFKA}")

    def set_mode(self, zookeeper: bool) -> None:
        """Takes over where the metadata is."""
        if zookeeper:
            self.cluster["mode"] = "zookeeper"
            version = self.cluster.get("kafka")
            if version is not None and tuple(map(int, version.split(".")[:2])) >= _OLDEST_KRAFT_ONLY:
                raise UsageError(f"Kafka {version} has no ZooKeeper mode, and the file has ZooKeeper")


def _value(text: str) -> bool | int | str:
    """A setting as YAML has it."""
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


def read_cluster(path: Path) -> DescribedCluster:
    """Reads a description. Raises UsageError naming the file, and what is missing in it."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return _of_properties(path)
    try:
        documents = [each for each in yaml.safe_load_all(read(path, _KIND)) if isinstance(each, dict)]
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    try:
        compose = next((each for each in documents if isinstance(each.get("services"), dict)), None)
        if compose is not None:
            return _of_compose(path, compose)
        if any("strimzi.io" in str(each.get("apiVersion")) for each in documents):
            return _of_strimzi(path, documents)
    except KeyError as error:
        raise UsageError(f"{path}: a Strimzi resource has no {error}") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: not as Compose or Strimzi write it: {error}") from None
    raise UsageError(f"{path}: has neither services (Compose) nor a Kafka resource (strimzi.io)")


def take_config_file(block: dict[Any, Any], folder: Path, *, wins: bool) -> None:
    """Replaces `config-file` in a cluster block by what the file says. `folder`: where relative paths begin;
    `wins`: whether the file's settings win over the block's own. Raises UsageError.
    """
    described = read_cluster(folder / str(block.pop(CONFIG_FILE))).cluster
    both = (block, described) if wins else (described, block)
    config = {**(both[0].get("config") or {}), **(both[1].get("config") or {})}
    block |= {**both[0], **both[1], "config": config}


def scenario_from(path: Path, name: str, like: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A scenario (its name, and its file's data) on the cluster that a file describes, and what was not taken
    over. Its topics have the settings of the described ones, and what it expects is left out. Raises
    UsageError.
    """
    described = read_cluster(path)
    given = described.cluster.get("config", {})
    kept = {key: value for key, value in (like.get("cluster") or {}).items() if key == "network"}
    factor = given.get("default.replication.factor", min(_LEAST_BROKERS, described.cluster["brokers"]))
    topics = []
    renamed: dict[str, str] = {}
    for number, topic in enumerate(like["topics"]):
        theirs = described.topics[number] if number < len(described.topics) else {}
        topics.append(
            {
                "name": topic["name"],
                "partitions": int(given.get("num.partitions", topic.get("partitions", 1))),
                "replication-factor": int(factor),
                **theirs,
            }
        )
        renamed[topic["name"]] = topics[-1]["name"]
    data = {
        "version": 1,
        "title": f"{name} on the cluster of {path.name}",
        "cluster": {**kept, **described.cluster},
        "topics": topics,
        **{key: like[key] for key in ("workload", "faults") if key in like},
    }
    return {key: _renamed(value, renamed) if key in like else value for key, value in data.items()}, (
        described.replaced
    )


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The value with the topics' new names, wherever one is a word of its own."""
    if isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    if not isinstance(value, str):
        return value
    return re.sub(r"[\w.-]+", lambda match: names.get(match[0], match[0]), value)


def _of_properties(path: Path) -> DescribedCluster:
    """One broker's server.properties: as many brokers as its replication factors need, but at least three."""
    settings = read_properties(path)
    if not settings:
        raise UsageError(f"{path}: has no settings")
    described = DescribedCluster()
    described.set_mode("zookeeper.connect" in settings and "process.roles" not in settings)
    described.cluster["brokers"] = max(_LEAST_BROKERS, *_factors(settings))
    voters = [voter for voter in settings.get("controller.quorum.voters", "").split(",") if voter.strip()]
    if voters and "controller" not in settings.get("process.roles", ""):
        described.cluster["controllers"] = len(voters)
    described.replaced.append(
        f"number of brokers: a file describes one; there are {described.cluster['brokers']}"
    )
    described.take(settings)
    return described


def _factors(settings: Mapping[str, str]) -> Iterator[int]:
    """How many brokers each setting needs."""
    for name, more in (
        ("default.replication.factor", 0),
        ("offsets.topic.replication.factor", 0),
        ("transaction.state.log.replication.factor", 0),
        ("min.insync.replicas", 1),
    ):
        value = str(settings.get(name, "")).strip()
        yield int(value) + more if value.isdecimal() else 1


def _of_compose(path: Path, document: Mapping[str, Any]) -> DescribedCluster:
    """The services whose image is Kafka; settings are those of the first broker."""
    nodes = []
    for name, service in document["services"].items():
        image = _expanded(str((service or {}).get("image", "")))
        if match := _IMAGE.search(image):
            nodes.append((name, image, match["tag"] or "", _settings(service.get("environment") or {})))
    roles = [str(settings.get("process.roles", "broker")) for *_, settings in nodes]
    brokers = [node for node, role in zip(nodes, roles, strict=True) if "broker" in role]
    if not brokers:
        raise UsageError(f"{path}: no service has an image of Kafka")
    described = DescribedCluster()
    _, image, tag, settings = brokers[0]
    described.set_version(_kafka_version(image, tag), f"image {image}")
    described.set_mode("zookeeper.connect" in settings and "process.roles" not in settings)
    described.cluster["brokers"] = len(brokers)
    if len(nodes) > len(brokers):
        described.cluster["controllers"] = len(nodes) - len(brokers)
    racks = [str(each.get("broker.rack", "")) for *_, each in brokers]
    if all(racks):
        described.cluster["racks"] = racks
    described.take(
        {name: value for name, value in settings.items() if name != "broker.rack" or not all(racks)}
    )
    for name, _, _, other in brokers[1:]:
        for key, value in other.items():
            if (
                key not in _NODES_OWN
                and not key.startswith(_NODES_OWN_PREFIXES)
                and settings.get(key) != value
            ):
                described.replaced.append(f"{name}: {key}={value}: all brokers have those of {brokers[0][0]}")
    return described


def _settings(environment: Mapping[str, Any] | list[str]) -> dict[str, str]:
    """Broker settings in a container's environment: KAFKA_MIN_INSYNC_REPLICAS, KAFKA_CFG_... of Bitnami's."""
    pairs = (
        [entry.partition("=")[::2] for entry in environment]
        if isinstance(environment, list)
        else environment.items()
    )
    settings = {}
    for name, value in pairs:
        variable = str(name).removeprefix("KAFKA_CFG_") if str(name).startswith("KAFKA_CFG_") else str(name)
        if variable == name and not variable.startswith("KAFKA_"):
            continue
        words = (
            variable.removeprefix("KAFKA_").lower().replace("___", "-").replace("__", "\0").replace("_", ".")
        )
        if not words.startswith(_NOT_SETTINGS):
            text = str(value).lower() if isinstance(value, bool) else _expanded(str(value))
            settings[words.replace("\0", "_")] = text
    return settings


def _expanded(text: str) -> str:
    """The text with Compose's variables: from the environment, else their default, else empty."""
    return _COMPOSE_VARIABLE.sub(
        lambda match: "$" if match[0] == "$$" else os.environ.get(match[1] or match[3] or "", match[2] or ""),
        text,
    )


def _kafka_version(image: str, tag: str) -> str:
    """The version of Kafka in an image: Confluent's 7.6.1 has Kafka 3.6, and 8.1 has 4.1."""
    version = _CONFLUENT.match(tag)
    if "/cp-" in f"/{image}" and version is not None and int(version[1]) >= 7:
        return f"{int(version[1]) - 4}.{version[2]}.0"
    exact = _VERSION.match(tag)
    return exact[0] if exact else tag


def _of_strimzi(path: Path, documents: list[dict[str, Any]]) -> DescribedCluster:
    """A Kafka resource with its KafkaNodePools and KafkaTopics, all in one file."""
    kafka = next((each for each in documents if each.get("kind") == "Kafka"), None)
    if kafka is None:
        raise UsageError(f"{path}: has no resource of kind Kafka")
    spec = kafka["spec"]
    broker, described = spec["kafka"], DescribedCluster()
    if "version" in broker:
        described.set_version(str(broker["version"]), f"spec.kafka.version {broker['version']}")
    pools = [each["spec"] for each in documents if each.get("kind") == "KafkaNodePool"]
    described.set_mode("zookeeper" in spec and not pools)
    described.cluster["brokers"] = sum(
        int(pool["replicas"]) for pool in pools if "broker" in pool["roles"]
    ) or int(broker.get("replicas", _LEAST_BROKERS))
    controllers = sum(int(pool["replicas"]) for pool in pools if list(pool["roles"]) == ["controller"])
    if controllers:
        described.cluster["controllers"] = controllers
    if rack := broker.get("rack"):
        described.cluster["racks"] = ["zone-1", "zone-2", "zone-3"]
        described.replaced.append(f"rack {rack.get('topologyKey')}: three racks, zone-1 to zone-3")
    described.replaced += [f"spec.kafka.{part}: kaput sets its own" for part in _STRIMZIS if part in broker]
    for part in ("storage", "resources", "jvmOptions"):
        if any(part in pool for pool in pools):
            described.replaced.append(f"{part} of the KafkaNodePools: kaput sets its own")
    described.take(broker.get("config") or {})
    described.topics = [_topic(each) for each in documents if each.get("kind") == "KafkaTopic"]
    return described


def _topic(resource: Mapping[str, Any]) -> dict[str, Any]:
    spec = resource.get("spec") or {}
    topic = {"name": spec.get("topicName") or resource["metadata"]["name"]}
    topic |= {"partitions": spec["partitions"]} if "partitions" in spec else {}
    topic |= {"replication-factor": spec["replicas"]} if "replicas" in spec else {}
    return topic | ({"config": dict(spec["config"])} if spec.get("config") else {})
