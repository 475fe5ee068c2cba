"""A cluster as the user's own files describe it: server.properties, a Compose file, or Strimzi's resources.

What one machine can have is taken over: the number of brokers and controllers, the version, racks, settings,
topics. What it cannot (addresses, paths, certificates, plugins) is listed, and kaput's own takes its place.
Not here: which settings are taken over (described_cluster.py), and other formats (compose.py, strimzi.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kaput.core import plural
from kaput.errors import UsageError, unreadable
from kaput.java_properties import read_settings
from kaput.scenario.cluster_files.compose import is_compose, of_compose
from kaput.scenario.cluster_files.described_cluster import (
    LEAST_BROKERS,
    DescribedCluster,
    Setting,
    needed_brokers,
    quorum,
)
from kaput.scenario.cluster_files.strimzi import of_strimzi
from kaput.scenario.cluster_files.yaml_documents import documents_of

CONFIG_FILE = "config-file"
# What a lab has for its faults, and no file of a cluster speaks of.
_EQUIPMENT = {"disk-fs", "disk-mb", "faketime", "log-dirs", "memory-groups", "network", "proxies"}
_WANTED = "give a broker's server.properties, a Compose file, or Strimzi's Kafka resource"
_OF_CLIENTS = ("bootstrap.servers", "metadata.broker.list")
_OF_BROKERS = {
    "broker.id", "controller.quorum.bootstrap.servers", "controller.quorum.voters", "listeners", "log.dir",
    "log.dirs", "node.id", "process.roles", "zookeeper.connect",
}  # fmt: skip
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")


def read_cluster(path: Path) -> DescribedCluster:
    """Reads a description. Raises UsageError naming the file, and what is missing in it."""
    _refuse_binary(path)
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return _of_properties(path)
    documents = documents_of(path)
    try:
        compose = next(filter(is_compose, documents), None)
        if compose is not None:
            return of_compose(compose)
        if any("strimzi.io" in str(each.data.get("apiVersion")) for each in documents):
            return of_strimzi(str(path), documents)
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: not as Compose or Strimzi write it: {error}") from None
    raise UsageError(f"{path}: has neither services (Compose) nor a Kafka resource (strimzi.io)")


def _refuse_binary(path: Path) -> None:
    """Java reads any bytes as properties; control characters show that a file is something else."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None
    if (found := _NOT_TEXT.search(data)) is not None:
        byte = f"byte {found.start()} is 0x{data[found.start()]:02x}"
        raise UsageError(f"{path}: not a text file ({byte}); a description of a cluster is UTF-8 text")


def take_config_file(block: dict[Any, Any], folder: Path, *, wins: bool) -> list[str]:
    """Replaces `config-file` in a cluster block by what the file says; returns a sentence if that is not all
    of it. `folder`: where relative paths begin; `wins`: whether the file's settings win over the block's own.
    Raises UsageError.
    """
    path = folder / str(block.pop(CONFIG_FILE))
    found = read_cluster(path)
    described, left_out = found.cluster, len(found.replaced)
    both = (block, described) if wins else (described, block)
    settings = [each.get("config") or {} for each in both]
    mappings = all(isinstance(each, dict) for each in settings)
    config = {**settings[0], **settings[1]} if mappings else block["config"]
    block |= {**both[0], **both[1], "config": config}
    differences = f"{plural(left_out, 'difference')} from it in the run"
    return [f"{path}: {differences}; kaput scenarios from {path} lists them"] if left_out else []


def scenario_from(path: Path, name: str, like: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A scenario (its name, and its file's data) on the cluster that a file describes, and what was not taken
    over. Its topics have the settings of the described ones, and what it expects is left out. Raises
    UsageError.
    """
    described = read_cluster(path)
    given = described.cluster.get("config", {})
    if "clusters" in like:
        raise UsageError(f"{path}: describes one cluster, and {name} has several; choose another with --like")
    kept = {key: value for key, value in (like.get("cluster") or {}).items() if key in _EQUIPMENT}
    least = min(LEAST_BROKERS, described.cluster["brokers"])
    factor = given.get("default.replication.factor", least)
    topics = []
    renamed: dict[str, str] = {}
    for number, topic in enumerate(like["topics"]):
        theirs = described.topics[number] if number < len(described.topics) else {}
        topics.append(
            {
                "name": topic["name"],
                "partitions": given.get("num.partitions", topic.get("partitions", 1)),
                "replication-factor": factor,
                **theirs,
            }
        )
        renamed[topic["name"]] = topics[-1]["name"]
    described.replaced += [
        f"topic {each['name']}: left out; what happens needs {plural(len(topics), 'topic')}"
        for each in described.topics[len(topics) :]
    ]
    data = {
        "version": 1,
        "title": f"{name} on the cluster of {path.name}",
        "cluster": {**kept, **described.cluster},
        "topics": topics,
        **{key: like[key] for key in ("stores", "workload", "faults") if key in like},
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


def _refuse_others(settings: Mapping[str, Setting]) -> None:
    """Raises UsageError for a client's file, and for a text that is no properties file."""
    of_client = next((name for name in _OF_CLIENTS if name in settings), None)
    if of_client is not None and not settings.keys() & _OF_BROKERS:
        raise UsageError(f"{settings[of_client].place}: {of_client} is a client's setting; {_WANTED}")
    if not any("." in name or name in _OF_BROKERS for name in settings):
        name, first = next(iter(settings.items()))
        raise UsageError(f"{first.place}: {name} is no setting of a broker, nor is any other; {_WANTED}")


def _of_properties(path: Path) -> DescribedCluster:
    """One node's server.properties: as many brokers as its replication factors need, but at least three."""
    settings = {
        name: Setting(each.value, f"{path}:{each.line}") for name, each in read_settings(path).items()
    }
    if not settings:
        raise UsageError(f"{path}: has no settings")
    if wrong := {"apiVersion", "services"} & settings.keys():
        raise UsageError(f"{path}: has {wrong.pop()}, as YAML files have: give it a name that ends in .yaml")
    _refuse_others(settings)
    described = DescribedCluster()
    roles = str(settings["process.roles"].value if "process.roles" in settings else "broker")
    zookeeper = "zookeeper.connect" in settings and "process.roles" not in settings
    described.set_kafka(None, str(path), zookeeper=zookeeper)
    nodes = len(quorum(settings))
    combined = "broker" in roles and "controller" in roles
    described.cluster["brokers"] = max(LEAST_BROKERS, nodes if combined else 0, *needed_brokers(settings))
    if zookeeper:
        described.set_zookeepers(nodes)
    elif combined:
        described.set_controllers(0, nodes if nodes > 1 else 0)  # one is a cluster of one node
    else:
        described.set_controllers(nodes, 0)
    described.replaced.append(
        f"number of brokers: a file describes one; there are {described.cluster['brokers']}"
    )
    described.take(settings)
    return described
