"""Levels of Kafka's features, such as metadata.version: the active level, and what the nodes support.

Its place: cluster_admin.py provides the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kaput.cluster.admin.broadcast import ANSWER_TIMEOUT_S
from kaput.cluster.protocol import ApiVersionsRequest, UpdateFeaturesRequest
from kaput.cluster.wire import Endpoint, ask, trouble
from kaput.errors import LabError

METADATA_VERSION = "metadata.version"
_UPGRADE = 1
_TIMEOUT_S = 20.0


def levels(endpoint: Endpoint) -> dict[str, int]:
    """The active levels, as this node knows them, without features at level 0. Raises LabError."""
    return {
        feature.name: int(feature.max_version_level) for feature in _features(endpoint).finalized_features
    }


def level(endpoint: Endpoint, name: str) -> int:
    """The active level of one feature. Raises LabError."""
    known = levels(endpoint)
    if name not in known:
        raise LabError(f"{endpoint.host}:{endpoint.port} has no level of {name}")
    return known[name]


def common_level(endpoints: Iterable[Endpoint], name: str) -> int:
    """The highest level that all of these nodes support. Raises LabError."""
    could: list[int] = []
    for endpoint in endpoints:
        known = {feature.name: feature for feature in _features(endpoint).supported_features}
        if name not in known:
            raise LabError(f"{endpoint.host}:{endpoint.port} has no {name}")
        could.append(int(known[name].max_version))
    return min(could)


def raise_level(endpoint: Endpoint, name: str, to: int) -> None:
    """UpdateFeatures; a broker forwards it to the controller. Raises LabError."""
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=to, upgrade_type=_UPGRADE)
    request = UpdateFeaturesRequest(
        version=1, timeout_ms=int(_TIMEOUT_S * 1000), feature_updates=[update], validate_only=False
    )
    answer = ask(endpoint, request, _TIMEOUT_S)
    # If a feature is refused, its own entry has the reason.
    for result in [*answer.results, answer]:
        if result.error_code:
            raise trouble(f"{name} cannot become {to}", result.error_code, result.error_message)


def _features(endpoint: Endpoint) -> Any:
    request = ApiVersionsRequest(version=3, client_software_name="kaput", client_software_version="1")
    answer = ask(endpoint, request, ANSWER_TIMEOUT_S)
    if answer.error_code:
        raise trouble(f"{endpoint.host}:{endpoint.port}: its features", answer.error_code)
    return answer
