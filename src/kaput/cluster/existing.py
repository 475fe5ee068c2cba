"""The user's own cluster: its brokers' addresses and versions.

kaput starts and stops no process here. Its place: runner/existing_cluster.py makes
runs on it; requests are in admin/existing.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kaput.cluster.access import OPEN, Access
from kaput.cluster.admin import existing_requests, requests
from kaput.cluster.admin.features import METADATA_VERSION
from kaput.cluster.protocol import infer_broker_version_from_api_versions
from kaput.cluster.wire import AccessRefused, Endpoint, Unanswered, ask
from kaput.errors import LabError, UsageError

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[\w:.%]+)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})")
_ANSWER_TIMEOUT_S = 5.0
_POLL_S = 0.2
_LEVEL_OF_4_3, _LEVEL_OF_4_4 = 30, 33  # the highest level of metadata.version


@dataclass(frozen=True)
class StandingCluster:
    """A running cluster as the user named it: its name in sentences, its brokers, and the file of client
    properties, if any. It is sent to Spark tasks; secrets stay in the file.
    """

    name: str
    servers: str
    config: Path | None = None

    @property
    def access(self) -> Access:
        """The security settings, read from the file. Raises UsageError."""
        return OPEN if self.config is None else Access.read(self.config)


@dataclass
class ExistingCluster:
    """The brokers' addresses, from their metadata; `refresh` updates them. Not thread-safe."""

    bootstrap_servers: str
    access: Access = OPEN
    cluster_id: str | None = None
    broker_endpoints: Mapping[int, Endpoint] = field(default_factory=dict)
    racks: Mapping[int, str | None] = field(default_factory=dict)
    zookeeper_endpoints: Mapping[int, Endpoint] = field(default_factory=dict)  # none known

    @property
    def controller_endpoints(self) -> Mapping[int, Endpoint]:
        """The brokers: they forward requests to the metadata quorum."""
        return self.broker_endpoints

    def refresh(self) -> None:
        """Asks the bootstrap servers and known brokers until one answers. Raises LabError if none does."""
        why = "there are no brokers"
        given = [Endpoint(*each, self.access) for each in addresses(self.bootstrap_servers)]
        for endpoint in [*given, *self.broker_endpoints.values()]:
            try:
                answer = ask(endpoint, requests.metadata(), _ANSWER_TIMEOUT_S)
            except AccessRefused:
                raise
            except Unanswered as error:
                why = str(error)
                continue
            self.cluster_id = answer.cluster_id
            # Keeps brokers that are down now.
            now = {b.node_id: Endpoint(b.host, b.port, self.access) for b in answer.brokers}
            self.broker_endpoints = {**self.broker_endpoints, **now}
            self.racks = {**self.racks, **{b.node_id: b.rack for b in answer.brokers}}
            return
        raise LabError(f"{self.bootstrap_servers} cannot be reached: {why}")

    def wait_ready(self, brokers: set[int], timeout_s: float) -> None:
        """Waits until all of these brokers answer and know each other. Raises LabError after the timeout."""
        limit = time.monotonic() + timeout_s
        while True:
            missing = {broker for broker in brokers if not self._is_ready(broker, brokers)}
            if not missing:
                return
            if time.monotonic() >= limit:
                names = ", ".join(map(str, sorted(missing)))
                raise LabError(f"not ready after {timeout_s:.0f} s: broker {names}")
            time.sleep(_POLL_S)

    def _is_ready(self, broker: int, brokers: set[int]) -> bool:
        try:
            answer = ask(self.broker_endpoints[broker], requests.metadata(), _ANSWER_TIMEOUT_S)
        except Unanswered:
            return False
        return brokers <= {alive.node_id for alive in answer.brokers}


def addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Parses HOST:PORT,... Raises UsageError."""
    found = []
    for text in bootstrap_servers.split(","):
        match = _ADDRESS.fullmatch(text.strip())
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            raise UsageError(f"--bootstrap-servers {bootstrap_servers}: {text!r} is not HOST:PORT")
        found.append((match["ipv6"] or match["host"], int(match["port"])))
    return found


def version_of(endpoint: Endpoint) -> tuple[str | None, dict[str, int]]:
    """A broker's Kafka version (`4.3`, inferred from the requests and features that it supports, or `newer
    than 4.4`), and the levels of its cluster's features. Raises LabError.
    """
    answer = ask(endpoint, existing_requests.api_versions(), _ANSWER_TIMEOUT_S)
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
