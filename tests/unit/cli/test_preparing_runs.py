"""What a run needs is fetched before kaput enters a network namespace, which reaches no repository."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from kaput.cli.jars import SPARK_KAFKA, spark_kafka_version
from kaput.cli.run_scenarios import prepare
from kaput.cluster.distribution import Distribution
from kaput.cluster.lock import find_lock, version_with
from kaput.core import NEWEST_KAFKA
from kaput.errors import DistributionError, UsageError
from kaput.java import find_java
from kaput.runner.machine import Memory
from kaput.scenario.loader import load


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is fetched, and when the namespace is entered; Kafka 9.9.9 can't be fetched."""
    events: list[str] = []

    def kafka(version: str, *_: object) -> Distribution:
        if version == "9.9.9":
            raise DistributionError("there is no Kafka 9.9.9")
        events.append(version)
        return Distribution(version, (), "id")

    def more(distribution: Distribution, of: str, _: object) -> Distribution:
        events.append(f"{of} {distribution.version}")
        return distribution

    monkeypatch.setattr("kaput.cli.jars.distribution_for", kafka)
    monkeypatch.setattr("kaput.cli.jars.more_for", more)
    monkeypatch.setattr("kaput.runner.setting_check.check_settings", lambda *_, **__: None)
    monkeypatch.setattr("kaput.cluster.network.reexec.enter", lambda *_: events.append("enters"))
    return events


def test_mirror_maker_is_fetched_before_the_namespace_is_entered(done: list[str]) -> None:
    """On a machine that has run no scenario with mirrors yet, too."""
    prepare([("a", load("dc1-netsplit")[1])], find_java())
    maker = version_with("mirror", NEWEST_KAFKA)
    assert done == [*dict.fromkeys([NEWEST_KAFKA, maker]), f"mirror {maker}", "enters"]


def test_warning_about_memory_is_given_before_the_restart_only(
    done: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the namespace kaput prepares the same runs again."""
    monkeypatch.setattr("kaput.runner.machine.of_this_machine", lambda: Memory(99_999, 100))
    named = [("a", load("leader-isolated-acks-all")[1])] * 2
    prepare(named, find_java())
    assert capsys.readouterr().err.count("a: 4 nodes need about") == 1
    monkeypatch.setattr("kaput.cluster.network.reexec.inside", lambda: True)
    prepare(named, find_java())
    assert "nodes need" not in capsys.readouterr().err and done[-1] == "enters"


def test_version_that_cannot_be_fetched_fails_only_its_own_runs(done: list[str]) -> None:
    """The others are prepared; alone, its error is raised before anything starts."""
    missing = ("a", load("leader-isolated-acks-all", ["cluster.kafka=9.9.9"])[1])
    prepare([missing, ("b", load("leader-isolated-acks-all")[1])], find_java())
    assert done == [NEWEST_KAFKA, "enters"]
    with pytest.raises(DistributionError, match=r"9\.9\.9"):
        prepare([missing], find_java())


def test_installation_does_not_replace_two_versions(done: list[str], tmp_path: Path) -> None:
    """Several scenarios with one installation: the error belongs to the run of the one that needs two."""
    two = ("a", load("dc1-netsplit", ["clusters.dc1.kafka=3.9.2"])[1])
    prepare([two, ("b", load("leader-kill-acks-all")[1])], find_java(), tmp_path)
    assert done == ["enters"]


def test_settings_of_all_scenarios_are_checked_before_anything_starts() -> None:
    """A mistake of several is named once."""
    changes = (["topics.0.config.a=1"], ["topics.0.config.a=1", "topics.0.config.b=1"])
    with pytest.raises(UsageError) as raised:
        prepare([("a", load("noop", change)[1]) for change in changes], find_java())
    lines = [line.partition(":")[0] for line in str(raised.value).splitlines()]
    assert lines == ["--set topics.0.config.a=1", "--set topics.0.config.b=1"]


@pytest.mark.parametrize(
    ("pyspark", "source"), [("4.2.0", "4.2.0"), ("4.2.1", "4.2.0"), ("4.3.0", "4.2.0"), ("4.10.2", "4.2.0")]
)
def test_source_is_of_the_same_release_or_the_newest_before(pyspark: str, source: str) -> None:
    """Each of these has a lock file."""
    assert spark_kafka_version(pyspark) == source
    assert find_lock(source, SPARK_KAFKA) is not None


def test_installed_pyspark_is_in_the_range_and_has_a_source() -> None:
    """The range of pyproject.toml has no upper end, and begins where docs/SUPPORT.md does."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert [each for each in project["dependencies"] if each.startswith("pyspark")] == ["pyspark>=4.0"]
    assert find_lock(spark_kafka_version(version("pyspark")), SPARK_KAFKA) is not None
