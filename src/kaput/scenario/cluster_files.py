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
    "cluster.id", "debug", "enable.kraft", "gc.log.opts", "heap.opts", "home", "jmx.", "jvm.", "kraft.",
    "log4j.", "opts", "tools.", "version",
)  # fmt: skip
# Of a Kafka resource of Strimzi.
_STRIMZIS = (
    "metadataVersion", "listeners", "authorization", "storage", "resources", "jvmOptions", "metricsConfig",
    "logging", "tieredStorage", "quotas",
)  # fmt: skip
# A default or a replacement may have variables itself: ${A:-${B:-c}}.
_COMPOSE_VARIABLE = re.compile(
    r"\$\$|\$\{(?P<braced>\w+)(?:(?P<how>:?[-?+])(?P<text>(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*))?\}"
    r"|\$(?P<bare>\w+)"
)
_ENTRY = re.compile(r"""(?:export\s+)?(\w+)\s*[=:]\s*(?:"([^"]*)"|'([^']*)'|(.*?))\s*(?:(?<=\s)#.*)?""")
_IMAGE = re.compile(r"(?:^|/)(?:kafka|kafka-native|cp-kafka|cp-server)(?::(?P<tag>[\w.-]+))?(?:@|$)")
_IMAGES = "apache/kafka, bitnami/kafka, confluentinc/cp-kafka or cp-server"
_STRIMZI_IMAGE = re.compile(r"kafka-(\d+\.\d+\.\d+)$")  # 0.40.0-kafka-3.7.0
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
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return _of_properties(path)
    try:
        documents = [each for each in yaml.safe_load_all(read(path, _KIND)) if isinstance(each, dict)]
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    documents = [item for each in documents for item in _items(each)]
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


def _items(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The resources in a document: kubectl get -o yaml puts several into a list."""
    items = document.get("items")
    if document.get("kind") != "List" or not isinstance(items, list):
        return [document]
    return [item for item in items if isinstance(item, dict)]


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
    least = min(_LEAST_BROKERS, described.cluster["brokers"])
    factor = _count(path, given, "default.replication.factor", least)
    topics = []
    renamed: dict[str, str] = {}
    for number, topic in enumerate(like["topics"]):
        theirs = described.topics[number] if number < len(described.topics) else {}
        topics.append(
            {
                "name": topic["name"],
                "partitions": _count(path, given, "num.partitions", topic.get("partitions", 1)),
                "replication-factor": factor,
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


def _count(path: Path, settings: Mapping[str, Any], name: str, default: int) -> int:
    value = settings.get(name, default)
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,9}", str(value)):
        raise UsageError(f"{path}: {name}={value} is not a whole number")
    return int(value)


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


@dataclass(frozen=True)
class _Service:
    """A service of a Compose file whose image is Kafka; `count`: of its containers."""

    name: str
    image: str
    tag: str
    settings: dict[str, str]
    count: int


def _of_compose(path: Path, document: Mapping[str, Any]) -> DescribedCluster:
    """The services whose image is Kafka; settings are those of the first broker."""
    variables = _Variables(path)
    found = (_service(name, each or {}, variables) for name, each in document["services"].items())
    nodes = [each for each in found if each is not None and each.count]
    brokers = [each for each in nodes if "broker" in each.settings.get("process.roles", "broker")]
    if not brokers:
        raise UsageError(f"{path}: no service has an image of Kafka ({_IMAGES}), or none is a broker")
    described, first = DescribedCluster(), brokers[0]
    settings = first.settings
    described.set_version(_kafka_version(first.image, first.tag), f"image {first.image}")
    described.set_mode("zookeeper.connect" in settings and "process.roles" not in settings)
    described.cluster["brokers"] = sum(each.count for each in brokers)
    if len(nodes) > len(brokers):
        described.cluster["controllers"] = sum(each.count for each in nodes if each not in brokers)
    racks = [each.settings.get("broker.rack", "") for each in brokers for _ in range(each.count)]
    if all(racks):
        described.cluster["racks"] = racks
    described.take(
        {name: value for name, value in settings.items() if name != "broker.rack" or not all(racks)}
    )
    for other in brokers[1:]:
        for key, value in other.settings.items():
            own = key in _NODES_OWN or key.startswith(_NODES_OWN_PREFIXES)
            if not own and settings.get(key) != value:
                described.replaced.append(
                    f"{other.name}: {key}={value}: all brokers have those of {first.name}"
                )
    return described


def _service(name: str, service: Mapping[str, Any], variables: _Variables) -> _Service | None:
    image = variables.expanded(str(service.get("image", "")))
    match = _IMAGE.search(image)
    if match is None:
        return None
    environment = {
        **variables.of_files(service.get("env_file") or []),
        **variables.of_service(service.get("environment") or {}),
    }
    count = variables.expanded(str((service.get("deploy") or {}).get("replicas", service.get("scale", 1))))
    if not re.fullmatch("[0-9]{1,9}", count):
        raise UsageError(f"{variables.path}: service {name}: {count!r} is not a number of containers")
    settings = _settings(environment, only_prefixed="bitnami" in image)
    return _Service(name, image, match["tag"] or "", settings, int(count))


def _settings(environment: Mapping[str, str], only_prefixed: bool) -> dict[str, str]:
    """Broker settings in a container's environment: KAFKA_MIN_INSYNC_REPLICAS, or KAFKA_CFG_... of Bitnami's
    images, where the others belong to the image's scripts (`only_prefixed`).
    """
    settings = {}
    for name, value in environment.items():
        variable = name.removeprefix("KAFKA_CFG_")
        if variable == name and (only_prefixed or not variable.startswith("KAFKA_")):
            continue
        words = (
            variable.removeprefix("KAFKA_").lower().replace("___", "-").replace("__", "\0").replace("_", ".")
        )
        if not words.startswith(_NOT_SETTINGS):
            settings[words.replace("\0", "_")] = value
    return settings


class _Variables:
    """Compose's variables: those of the environment, else of the file .env next to the Compose file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        dotenv = path.parent / ".env"
        self._known = {**(_entries(dotenv) if dotenv.is_file() else {}), **os.environ}

    def expanded(self, text: str) -> str:
        """The text with their values, or defaults, or nothing. Raises UsageError for `${NAME:?}`."""
        return _COMPOSE_VARIABLE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, how = match["braced"] or match["bare"], match["how"] or ""
        value = self._known.get(name)
        missing = value is None or (how.startswith(":") and not value)
        if how.endswith("+"):
            return "" if missing else self.expanded(match["text"])
        if missing and how.endswith("?"):
            raise UsageError(f"{self.path}: {match[0]}: set {name} in the environment, or in a file .env")
        return self.expanded(match["text"]) if missing and how.endswith("-") else value or ""

    def of_service(self, environment: Mapping[str, Any] | list[str]) -> dict[str, str]:
        """A service's environment; a name without a value has that of the variable, if there is one."""
        pairs: list[tuple[str, Any]] = [
            (name, value if equals else None)
            for name, equals, value in (str(entry).partition("=") for entry in environment)
        ]
        if isinstance(environment, Mapping):
            pairs = [(str(name), value) for name, value in environment.items()]
        known = ((name, self._known.get(name) if value is None else value) for name, value in pairs)
        return {
            name: str(value).lower() if isinstance(value, bool) else self.expanded(str(value))
            for name, value in known
            if value is not None
        }

    def of_files(self, files: Any) -> dict[str, str]:
        """What a service's `env_file` says: a path, or several, which may be `{path: ..., required: ...}`."""
        found: dict[str, str] = {}
        for each in [files] if isinstance(files, str | dict) else files:
            entry = each if isinstance(each, dict) else {"path": each}
            if (name := entry.get("path")) is None:
                raise UsageError(f"{self.path}: env_file: {each} has no path")
            required = entry.get("required", True)
            file = self.path.parent / self.expanded(str(name))
            if required or file.exists():
                found |= {key: self.expanded(value) for key, value in _entries(file).items()}
        return found


def _entries(path: Path) -> dict[str, str]:
    """The variables of a file such as .env."""
    entries = (_ENTRY.fullmatch(line.strip()) for line in read(path, _KIND).splitlines())
    return {each[1]: each[2] or each[3] or each[4] or "" for each in entries if each is not None}


def _kafka_version(image: str, tag: str) -> str:
    """The version of Kafka in an image: Confluent's 7.6.1 has Kafka 3.6, and 8.1 has 4.1."""
    if strimzi := _STRIMZI_IMAGE.search(tag):
        return strimzi[1]
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
