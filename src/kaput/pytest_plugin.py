"""The pytest plugin: real clusters as fixtures, whose brokers the test can break (docs/IN_YOUR_TESTS.md).

pytest finds it by itself wherever kaput is installed. Imports kaput only once a test asks for a fixture.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kaput.api.lab import Lab

MARKER, INI = "kafka_cluster", "kaput_cluster"
# Their names in kaput 0.1.0; gone in the release after the next.
_OLD_MARKER, _OLD_INI = "kafka_lab", "kafka_lab_shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The ini key of the shared cluster."""
    about = "the cluster of the fixture kafka_lab_shared: lines KEY=VALUE, as in a scenario's cluster block"
    parser.addini(INI, about, type="linelist", default=[])
    parser.addini(_OLD_INI, f"deprecated: {INI}", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """The marker for a cluster of the test's own."""
    config.addinivalue_line(
        "markers", f"{MARKER}(scenario=None, **cluster): the cluster of the fixture kafka_lab: brokers=1, ..."
    )
    config.addinivalue_line("markers", f"{_OLD_MARKER}(...): deprecated: {MARKER}")


@pytest.fixture
def kafka_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A cluster for this test alone; three brokers unless the marker `kafka_cluster` says otherwise."""
    args, kwargs = _marked(request)
    yield from _started(*args, **{"folder": tmp_path_factory.mktemp("kafka-lab"), **kwargs})


@pytest.fixture(scope="session")
def kafka_lab_shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """One cluster for all tests; three brokers unless the ini key `kaput_cluster` says otherwise."""
    yield from _started(folder=tmp_path_factory.mktemp("kafka-lab-shared"), **_configured(request.config))


def _marked(request: pytest.FixtureRequest) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the test's marker."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is None and (marker := request.node.get_closest_marker(_OLD_MARKER)) is not None:
        _deprecated(f"the marker {_OLD_MARKER}", f"@pytest.mark.{MARKER}")
    return (marker.args, marker.kwargs) if marker is not None else ((), {})


def _configured(config: pytest.Config) -> dict[str, Any]:
    """The cluster in the ini file. Raises UsageError."""
    import yaml

    key = INI
    if not config.getini(INI) and config.getini(_OLD_INI):
        key = _OLD_INI
        _deprecated(f"the ini key {_OLD_INI}", INI)
    lines = [line.partition("=") for line in config.getini(key)]
    if wrong := [name for name, equals, _ in lines if not equals]:
        raise pytest.UsageError(f"{key}: {wrong[0]} is not KEY=VALUE")
    return {name.strip(): yaml.safe_load(value) for name, _, value in lines}


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated; use {new}", DeprecationWarning, stacklevel=2)


def _started(*args: Any, **cluster: Any) -> Iterator[Lab]:
    """The lab while tests use it; a broker that died on its own makes their result worth little."""
    from kaput.api.lab import lab

    with lab(*args, **cluster) as started:
        yield started
        if troubles := started.troubles():
            pytest.fail("\n".join(troubles), pytrace=False)
