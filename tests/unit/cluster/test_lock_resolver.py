"""Versions of Kafka that kaput does not come with: locked when they are first wanted, and held to that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from kaput.cluster.distribution import resolve
from kaput.cluster.lock import Module, create_lock, find_lock, read_lock
from kaput.core import NEWEST_KAFKA
from kaput.errors import DistributionError, UsageError
from kaput.java import Java

NO_JAVA = Java(Path("/nonexistent/java"), 17, "17", "")
KAFKA = "org.apache.kafka"


class Repository:
    """Kafka of any version, with the logging that is told."""

    def __init__(self, slf4j: str = "1.7.36", log4j: str | None = None) -> None:
        self.asked: list[list[Module]] = []
        self._needs = [("org.slf4j", "slf4j-api", slf4j)]
        self._needs += [("org.apache.logging.log4j", "log4j-core", log4j)] if log4j else []
        self._needs.append(("a.group", "some-jar", "1.0-jre"))

    def get(self, modules: Sequence[Module], into: Path) -> None:
        self.asked.append(list(modules))
        assert not list(into.glob("*/*.jar")), "what was fetched for another question is still there"
        for group, artifact, version in [*modules, *self._needs]:
            path = into / group / f"{artifact}-{version}.jar"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{artifact} {version}")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("log4j", "binding"),
    [
        (None, "org.slf4j:slf4j-reload4j:1.7.36"),
        ("2.24.3", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"),
    ],
)
def test_new_version_is_locked_with_its_logging_binding(log4j: str | None, binding: str) -> None:
    """Kafka's own jars first; afterwards neither Java nor a network is needed."""
    repository = Repository(log4j=log4j)
    path = create_lock("3.8.1", "kafka", repository.get)
    assert path == find_lock("3.8.1") and path.read_text().startswith(
        "# kafka-3.8.1: group:artifact:version SHA-256"
    )
    lines = [line.split()[0] for line in path.read_text().splitlines()[1:]]
    assert lines[:2] == [f"{KAFKA}:kafka-tools:3.8.1", f"{KAFKA}:kafka_2.13:3.8.1"]
    assert binding in lines and "a.group:some-jar:1.0-jre" in lines
    found = resolve("3.8.1", NO_JAVA)
    assert (found.version, len(found.jars)) == ("3.8.1", len(lines)) and all(
        jar.is_file() for jar in found.jars
    )


def test_changed_jar_fails_the_lock_check() -> None:
    """Trusted on first use: a jar that is another one by then is refused."""
    create_lock("3.8.1", "kafka", Repository().get)
    jar = resolve("3.8.1", NO_JAVA).jars[0]
    jar.write_text("another")
    with pytest.raises(
        DistributionError, match=r"is not org.apache.kafka:kafka-tools:3\.8\.1: expected SHA-256"
    ):
        resolve("3.8.1", NO_JAVA)


def test_shared_jar_is_not_overwritten() -> None:
    """Several versions share what they need."""
    create_lock("3.8.1", "kafka", Repository().get)
    shared = resolve("3.8.1", NO_JAVA).jars[-1]
    before = shared.stat().st_mtime_ns
    create_lock("3.8.0", "kafka", Repository().get)
    assert shared in resolve("3.8.0", NO_JAVA).jars and shared.stat().st_mtime_ns == before


def test_mirror_lock_has_only_additional_jars() -> None:
    """Without what the version has already."""
    create_lock("3.8.1", "kafka", Repository().get)
    create_lock("3.8.1", "mirror", Repository().get)
    assert [jar.artifact for jar in read_lock("3.8.1", "mirror")] == ["connect-mirror"]


OLD = "kaput does not support Kafka {}: use 3.7.0 or newer (or --kafka-home)"
NO_RELEASE = f"'{{}}' is not a release of Kafka: write one such as {NEWEST_KAFKA} (or use --kafka-home)"


@pytest.mark.parametrize(
    ("version", "sentence"),
    [*((version, OLD) for version in ("3.6.9", "2.8.0", "0.0.1")),
     *((version, NO_RELEASE) for version in ("4", "4.x.1", "4.4.0-rc1", "7.6.0-ccs"))],
)  # fmt: skip
def test_unsupported_version_is_rejected_before_any_download(version: str, sentence: str) -> None:
    """What is no release is not called too old."""
    with pytest.raises(UsageError, match=re.escape(sentence.format(version))):
        resolve(version, NO_JAVA)


def test_unavailable_version_leaves_no_files(tmp_path: Path) -> None:
    """The sentence says which; the next one asks again."""

    def nothing(modules: Sequence[Module], into: Path) -> None:
        raise DistributionError("not found in the repository (is the network up?): x")

    with pytest.raises(DistributionError, match=r"Kafka 9\.9\.9 is not available: not found"):
        create_lock("9.9.9", "kafka", nothing)
    assert find_lock("9.9.9") is None
    assert [path for path in (tmp_path / "cache" / "kaput" / "jars").rglob("*") if path.is_file()] == []


def test_unknown_slf4j_version_is_rejected() -> None:
    """Without its binding a broker would say nothing."""
    with pytest.raises(DistributionError, match=r"SLF4J 2\.0\.9 needs a binding that kaput does not know"):
        create_lock("5.0.0", "kafka", Repository(slf4j="2.0.9").get)
