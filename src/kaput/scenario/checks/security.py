"""What must agree between a cluster's security and the clients of a scenario: every mistake, with its path.

Called by scenario.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kaput.scenario.model import Cluster, Config, Scenario
from kaput.scenario.nearest import hint
from kaput.scenario.source import DataPath
from kaput.scenario.vocabulary import USERS

Found = Iterator[tuple[DataPath, str]]

_OLDEST = (3, 5)
_USER = "sasl.username"
_SECRET = re.compile(r".*(password|secret|jaas\.config)|ssl\.key\.pem|ssl\.keystore\.key")
_DECIDED = re.compile(
    r"security\.protocol|sasl\.mechanisms?|ssl\.(ca|certificate|key|truststore|keystore)\..*"
)


def check_security(scenario: Scenario) -> Found:
    """The mistakes of the cluster, and in the settings of every client."""
    for path, text in _cluster(scenario.cluster):
        yield ("cluster", *path), text
    workload = scenario.workload
    producers, groups = ([each.config for each in of] for of in (workload.producers, workload.groups))
    for name, configs in (("producers", producers), ("groups", groups)):
        for index, config in enumerate(configs):
            for path, text in _client(config, scenario.cluster):
                yield ("workload", name, index, *path), text


def _cluster(cluster: Cluster) -> Found:
    if cluster.security == "none":
        return
    release = re.match(r"(\d+)\.(\d+)", cluster.kafka)
    if cluster.mode == "zookeeper":
        yield ("security",), f"{cluster.security} needs mode: kraft"
    elif release is not None and (int(release[1]), int(release[2])) < _OLDEST:
        yield ("security",), f"{cluster.security} needs Kafka 3.5 or newer, not {cluster.kafka}"


def _client(config: Config, cluster: Cluster) -> Found:
    for name, value in config.items():
        if _SECRET.fullmatch(name):
            yield ("config", name), "secrets do not belong in a scenario: every run folder keeps a copy"
        elif cluster.security == "none":
            continue
        elif _DECIDED.fullmatch(name):
            yield ("config", name), "kaput sets this itself; cluster.security decides it"
        elif name == _USER and value not in USERS:
            yield ("config", name), f"the cluster has no user {value}; {hint(str(value), USERS)}"
