"""The user's own cluster: its brokers' addresses and versions. kaput starts and stops no process of it.

Not here: what a run does with it (runner/existing_cluster.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import Admin, requests
from kaput.cluster.admin.resources import METADATA_VERSION
from kaput.cluster.kafka_cluster import KafkaCluster, brokers_seen_by
from kaput.cluster.network.interface import Network
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.protocol import infer_broker_version_from_api_versions
from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered, addresses, ask, ask_first, unreachable
from kaput.errors import LabError
from kaput.scenario.vocabulary import CLIENT_USER

_ANSWER_TIMEOUT_S = 5.0
_LEVEL_OF_4_3, _LEVEL_OF_4_4 = 30, 33  # the highest level of metadata.version


class ExistingCluster(KafkaCluster):
    """The brokers' addresses, from their metadata; `refresh` updates them. Not thread-safe."""

    def __init__(self, bootstrap_servers: str, access: Access = OPEN) -> None:
        self._bootstrap_servers, self._access = bootstrap_servers, access
        self.network: Network = Loopback()
        self.cluster_id: str | None = None
        self.racks: Mapping[int, str | None] = {}
        self._brokers: Mapping[int, Endpoint] = {}

    @property
    def bootstrap_servers(self) -> str:
        """As the user named them."""
        return self._bootstrap_servers

    @property
    def broker_endpoints(self) -> Mapping[int, Endpoint]:
        """Known since `refresh`, also of brokers that have been down since."""
        return self._brokers

    @property
    def controller_endpoints(self) -> Mapping[int, Endpoint]:
        """The brokers: they forward requests to the metadata quorum."""
        return self._brokers

    def access(self, user: str = CLIENT_USER) -> Access:
        """The user's own settings, whatever the name."""
        return self._access

    def admin(self, timeout_s: float = 30.0) -> Admin:
        """A new admin client; its brokers may be far away."""
        return Admin(self, timeout_s)

    def restart_all(self, timeout_s: float) -> None:
        """Waits until every broker that is known answers, and knows the others. Raises LabError."""
        limit = time.monotonic() + timeout_s
        brokers = set(self._brokers)
        while missing := {broker for broker in brokers if not brokers <= self._seen_by(broker)}:
            if time.monotonic() >= limit:
                names = ", ".join(map(str, sorted(missing)))
                raise LabError(f"not ready after {timeout_s:.0f} s: broker {names}")
            time.sleep(0.2)

    def refresh(self) -> None:
        """Asks the bootstrap servers and known brokers until one answers. Raises LabError if none does."""
        given = [Endpoint(*each, self._access) for each in addresses(self.bootstrap_servers)]
        try:
            answer, _ = ask_first([*given, *self._brokers.values()], requests.metadata, _ANSWER_TIMEOUT_S)
        except AccessRefused:
            raise
        except Unanswered as error:
            raise unreachable(self.bootstrap_servers, str(error)) from None
        self.cluster_id = answer.cluster_id
        # Keeps brokers that are down now.
        now = {b.node_id: Endpoint(b.host, b.port, self._access) for b in answer.brokers}
        self._brokers = {**self._brokers, **now}
        self.racks = {**self.racks, **{b.node_id: b.rack for b in answer.brokers}}

    def answers(self, broker: int) -> bool:
        """Whether this broker was in the metadata since the start, and answers now."""
        return broker in self._brokers and broker in self._seen_by(broker)

    def _seen_by(self, broker: int) -> frozenset[int]:
        return brokers_seen_by(self._brokers[broker], _ANSWER_TIMEOUT_S)


def version_of(endpoint: Endpoint) -> tuple[str | None, dict[str, int]]:
    """A broker's Kafka version (`4.3`, inferred from the requests and features that it supports, or `newer
    than 4.4`), and the levels of its cluster's features. Raises LabError.
    """
    answer = ask(endpoint, requests.api_versions(), _ANSWER_TIMEOUT_S)
    known = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    inferred = infer_broker_version_from_api_versions(_ByNumber(known))
    features = {each.name: each.max_version_level for each in answer.finalized_features or []}
    supported = {each.name: int(each.max_version) for each in answer.supported_features or []}
    return _with_metadata_version(".".join(map(str, inferred)), supported.get(METADATA_VERSION, 0)), features


def _with_metadata_version(inferred: str, level: int) -> str:
    """The version, also by the highest metadata.version: kafka-python knows releases up to 4.3."""
    if level > _LEVEL_OF_4_4:
        return "newer than 4.4"
    return "4.4" if level > _LEVEL_OF_4_3 else inferred


class _ByNumber(dict[Any, Any]):
    """Looks up requests by number, or by kafka-python's enum."""

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(getattr(key, "value", key))
