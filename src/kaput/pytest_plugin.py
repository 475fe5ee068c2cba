"""The pytest plugin: fixtures with real clusters that tests can break (docs/IN_YOUR_TESTS.md).

pytest loads it wherever kaput is installed. It imports the rest of kaput only when a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kaput.api.lab import Lab

MARKER, INI = "kafka_cluster", "kaput_cluster"


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "the cluster of the fixture kafka_lab_shared: lines KEY=VALUE, as in a scenario's cluster block"
    parser.addini(INI, about, type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(scenario=None, **cluster): the cluster of the fixture kafka_lab: brokers=1, ..."
    )


@pytest.fixture
def kafka_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster for this test alone; three brokers unless the marker `kafka_cluster` says otherwise."""
    args, kwargs = _marker_arguments(request)
    yield from _running_lab(*args, **{"folder": tmp_path_factory.mktemp("kafka-lab"), **kwargs})


@pytest.fixture(scope="session")
def kafka_lab_shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """One cluster for all tests; three brokers unless the ini key `kaput_cluster` says otherwise."""
    yield from _running_lab(
        folder=tmp_path_factory.mktemp("kafka-lab-shared"), **_ini_arguments(request.config)
    )


def _marker_arguments(request: pytest.FixtureRequest) -> tuple[tuple[Any, ...], dict[str, Any]]:
    marker = request.node.get_closest_marker(MARKER)
    return (marker.args, marker.kwargs) if marker is not None else ((), {})


def _ini_arguments(config: pytest.Config) -> dict[str, Any]:
    """The cluster arguments in the ini file. Raises UsageError."""
    import yaml

    lines = [line.partition("=") for line in config.getini(INI)]
    if wrong := [name for name, equals, _ in lines if not equals]:
        raise pytest.UsageError(f"{INI}: {wrong[0]} is not KEY=VALUE")
    return {name.strip(): yaml.safe_load(value) for name, _, value in lines}


def _running_lab(*args: Any, **cluster: Any) -> Iterator[Lab]:
    """Runs the lab for tests, and checks afterwards that no broker died on its own."""
    from kaput.api.lab import lab

    with lab(*args, **cluster) as started:
        yield started
        if troubles := started.troubles():
            pytest.fail("\n".join(troubles), pytrace=False)
