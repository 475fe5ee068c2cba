"""The cluster block of a scenario, with its checks. Mirrors are in mirrors.py."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from kaput.core import NEWEST_KAFKA
from kaput.scenario.block import Block, Found
from kaput.scenario.clients import check_limit
from kaput.scenario.values import CLUSTER_NAME, BrokerConfig, Count, RackName, no_bool
from kaput.scenario.vocabulary import Security

ClusterName = Annotated[str, Field(pattern=f"^{CLUSTER_NAME}$")]
IDS_APART = 1000  # ids of the n-th cluster of a scenario are higher by n times this (n = 0, 1, ...)
MOST_CLUSTERS = 9  # the ids of mirrors follow
FIRST_CONTROLLER_ID = 101  # of dedicated controllers; brokers are numbered from 1
FIRST_ZOOKEEPER_ID = 201
LAST_KAFKA_WITH_ZOOKEEPER = "3.9.2"
_FIRST_SECURED = (3, 5)
MOST_BROKERS = FIRST_CONTROLLER_ID - 1
WHY_MOST_BROKERS = f"ids from {FIRST_CONTROLLER_ID} on are those of controllers"
KAFKA_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)([.-]\w+)*")


def release_of(kafka: str) -> tuple[int, ...]:
    """(4, 3) for `4.3.1`; a release newer than all for text that is not a version."""
    match = re.match(r"(\d+)\.(\d+)", kafka)
    return (int(match[1]), int(match[2])) if match else (1_000_000,)


class Cluster(Block):
    """The brokers: their number, Kafka's version, the voters of the metadata quorum."""

    kafka: str = NEWEST_KAFKA
    """Version of Apache Kafka (in ZooKeeper mode 3.9.2 if not given); its jars come through its lock file."""
    mode: Literal["kraft", "zookeeper"] = "kraft"
    """Where the metadata is: in Kafka's own quorum, or in ZooKeeper (Kafka 3.9 and older)."""
    brokers: Count = 3
    """Number of brokers, numbered from 1: at most 100, with those that steps add."""
    racks: list[RackName] = []
    """Rack names, assigned to the brokers in turn (`broker.rack`). Empty: no racks."""
    controllers: Literal["combined"] | Count = "combined"
    """`combined`: brokers 1 to 3 vote themselves. A number: that many dedicated controllers. KRaft only."""
    zookeepers: Annotated[Literal[1, 3], BeforeValidator(no_bool)] = 1
    """Number of ZooKeeper nodes; ZooKeeper mode only."""
    network: Literal["loopback", "namespaces"] = "loopback"
    """`loopback` allows faults on processes; `namespaces` (Linux) also on the network."""
    security: Security = "none"
    """`scram-tls`: TLS, users with passwords, ACLs (docs/SECURITY.md); KRaft only."""
    proxies: Literal["none", "clients", "everybody"] = "none"
    """Whose connections to nodes pass proxies, for `fault: protocol`; as its steps need it if not given."""
    disk_mb: Annotated[int, Field(ge=64), BeforeValidator(no_bool)] | None = None
    """MiB of a separate file system for each broker's data; needs namespaces. Default: the run folder's."""
    disk_fs: Literal["tmpfs", "ext4"] = "tmpfs"
    """Of those file systems: `ext4` (on loop devices; as root) for disk-stall and disk-error."""
    log_dirs: Annotated[Literal[1, 2], BeforeValidator(no_bool)] = 1
    """Log directories of each broker: with two, the second one can fail (log-dir-failure)."""
    faketime: bool = False
    """Nodes run with libfaketime, so that clock-skew can shift their clocks."""
    memory_groups: bool = False
    """Each node runs in a memory cgroup of its own (as root), so that memory-pressure can limit it."""
    features: dict[str, Annotated[int, Field(ge=0), BeforeValidator(no_bool)]] = {}
    """Initial levels of Kafka's features, such as eligible.leader.replicas.version; KRaft only. A run whose
    cluster had another level is inconclusive."""
    config_file: Annotated[str | None, Field(exclude=True)] = None
    """Your server.properties, Compose file or Strimzi Kafka resource: brokers, version, settings
    (docs/INPUTS.md). The keys of this block win."""
    config: BrokerConfig = {}
    """Broker settings, in Kafka's names."""
    _above: int = PrivateAttr(default=0)  # offset of all its ids, in a scenario with several clusters

    @model_validator(mode="before")
    @classmethod
    def _default_kafka(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("mode") == "zookeeper":
            return {"kafka": LAST_KAFKA_WITH_ZOOKEEPER, **data}
        return data

    def numbered(self, place: int) -> Cluster:
        """The cluster with ids of its own, as number `place` (from 0) of several."""
        numbered = self.model_copy()
        numbered._above = place * IDS_APART
        return numbered

    def broker_ids(self) -> list[int]:
        """Ids of the brokers: 1 to N; from 1001 in the second of several clusters."""
        return list(range(self._above + 1, self._above + self.brokers + 1))

    @property
    def broker_range(self) -> str:
        """`1 to 3`"""
        return f"{self._above + 1} to {self._above + self.brokers}"

    def rack(self, broker: int) -> str | None:
        return self.racks[(broker - self._above - 1) % len(self.racks)] if self.racks else None

    def may_have(self, broker: int) -> bool:
        """Whether a broker with that id exists."""
        return 1 <= broker - self._above <= self.brokers

    def dedicated_controller_ids(self) -> list[int]:
        """Ids of dedicated controllers, from 101; empty with combined controllers and in ZooKeeper mode."""
        if self.controllers == "combined" or self.mode == "zookeeper":
            return []
        return [self._above + FIRST_CONTROLLER_ID + n for n in range(self.controllers)]

    def voter_ids(self) -> list[int]:
        """Voters: dedicated controllers, else brokers 1 to 3 (or only 1); none in ZooKeeper mode."""
        if self.mode == "zookeeper":
            return []
        return self.dedicated_controller_ids() or self.broker_ids()[: 3 if self.brokers >= 3 else 1]

    def zookeeper_ids(self) -> list[int]:
        """Ids of ZooKeeper nodes, from 201; empty in KRaft mode."""
        if self.mode == "kraft":
            return []
        return [self._above + FIRST_ZOOKEEPER_ID + n for n in range(self.zookeepers)]

    @property
    def elects_eligible(self) -> bool:
        """Whether it begins with eligible leader replicas; a lower metadata.version has others' defaults."""
        if self.mode == "zookeeper":
            return False
        is_default = release_of(self.kafka) >= (4, 1) and "metadata.version" not in self.features
        return self.features.get("eligible.leader.replicas.version", int(is_default)) > 0

    def rules(self) -> Found:
        if self.brokers > MOST_BROKERS:
            yield ("brokers",), f"{WHY_MOST_BROKERS}; write {MOST_BROKERS} or fewer"
        if self.disk_mb is not None and self.network == "loopback":
            yield ("disk-mb",), "disk-mb needs cluster.network: namespaces"
        if self.disk_mb is None and self.disk_fs != "tmpfs":
            yield ("disk-fs",), "disk-fs needs disk-mb, the size of the file systems"
        if self.log_dirs == 2 and (self.mode == "zookeeper" or self.disk_mb is not None):
            yield ("log-dirs",), "two log directories need mode: kraft, and no disk-mb"
        if not KAFKA_VERSION.fullmatch(self.kafka):
            yield ("kafka",), f"{self.kafka!r} is not a version such as {NEWEST_KAFKA}"
        elif self.mode == "zookeeper" and release_of(self.kafka) >= (4, 0):
            yield (
                ("kafka",),
                f"Kafka {self.kafka} has no ZooKeeper mode; "
                f"leave it out or write {LAST_KAFKA_WITH_ZOOKEEPER}",
            )
        if any(self.features.values()) and self.mode == "zookeeper":
            # A level of 0 means disabled.
            yield ("features",), "features need KRaft; there are none in ZooKeeper mode"
        if self.proxies != "none" and (self.mode == "zookeeper" or self.security != "none"):
            yield ("proxies",), "faults in the protocol need mode: kraft and security: none"
        yield from check_limit(self.config, "group.share.delivery.count.limit", "config")
        if self.security == "none":
            return
        if self.mode == "zookeeper":
            yield ("security",), f"{self.security} needs mode: kraft"
        elif release_of(self.kafka) < _FIRST_SECURED:
            yield ("security",), f"{self.security} needs Kafka 3.5 or newer, not {self.kafka}"
