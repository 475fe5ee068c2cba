"""The version of a cluster that kaput did not start, by what a broker says that it supports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kaput.cluster.existing_cluster import version_of
from kaput.cluster.wire import Endpoint
from kaput.core import NEWEST_KAFKA
from kaput.scenario.cluster import release_of


def answer(level: int | None) -> SimpleNamespace:
    """Of a broker with the requests of Kafka 4.3, up to this metadata.version (None: it has no features)."""
    supported = [] if level is None else [SimpleNamespace(name="metadata.version", max_version=level)]
    requests = [SimpleNamespace(api_key=35, min_version=1, max_version=5)]  # DescribeLogDirs 5
    return SimpleNamespace(api_keys=requests, finalized_features=[], supported_features=supported)


@pytest.mark.parametrize(
    ("level", "version"), [(None, "4.3"), (30, "4.3"), (31, "4.4"), (33, "4.4"), (34, "newer than 4.4")]
)
def test_version_is_that_of_the_highest_level(
    level: int | None, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release has new levels where it has no new requests; a newer one is never called known."""
    monkeypatch.setattr("kaput.cluster.existing_cluster.ask", lambda *_: answer(level))
    assert version_of(Endpoint("host", 1)) == (version, {})


def test_newer_than_the_default_is_what_is_called_newer() -> None:
    """When the default moves, so do the levels."""
    assert release_of(NEWEST_KAFKA) == (4, 4) < release_of("newer than 4.4")
