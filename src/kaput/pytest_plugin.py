"""The pytest plugin: real clusters as fixtures, whose brokers the test can break (docs/IN_YOUR_TESTS.md).

pytest finds it by itself wherever kaput is installed. Imports kaput only once a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kaput.operate.lab import Lab

SHARED = "kafka_lab_shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ini option of the shared cluster."""
    parser.addini(
        SHARED,
        "the cluster that kafka_lab_shared starts: lines KEY=VALUE, the keys of a scenario's cluster block",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker of clusters of a test's own."""
    config.addinivalue_line(
        "markers", "kafka_lab(scenario=None, **cluster): the cluster that kafka_lab starts: brokers=1, ..."
    )


@pytest.fixture
def kafka_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster of the test's own, three brokers unless the marker `kafka_lab` tells otherwise."""
    from kaput.operate.lab import lab

    marker = request.node.get_closest_marker("kafka_lab")
    args, kwargs = (marker.args, marker.kwargs) if marker is not None else ((), {})
    with lab(*args, **{"folder": tmp_path_factory.mktemp("kafka-lab"), **kwargs}) as started:
        yield started
        _complain(started)


@pytest.fixture(scope="session")
def kafka_lab_shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """One cluster for all tests, three brokers unless the ini option tells otherwise."""
    import yaml

    from kaput.operate.lab import lab

    told = [line.partition("=") for line in request.config.getini(SHARED)]
    if wrong := [key for key, equals, _ in told if not equals]:
        raise pytest.UsageError(f"{SHARED}: {wrong[0]} is no KEY=VALUE")
    cluster = {key.strip(): yaml.safe_load(value) for key, _, value in told}
    with lab(folder=tmp_path_factory.mktemp("kafka-lab-shared"), **cluster) as started:
        yield started
        _complain(started)


def _complain(started: Lab) -> None:
    """A broker that ended on its own makes the test's result worth little."""
    if troubles := started.troubles():
        pytest.fail("\n".join(troubles), pytrace=False)
