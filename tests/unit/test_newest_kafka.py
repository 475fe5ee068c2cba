"""A newer release of Kafka's is noticed by a script; which one there is, Ivy says."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from kaput.cluster import ivy
from kaput.cluster.lock import version_with
from kaput.core import NEWEST_KAFKA
from kaput.errors import DistributionError
from kaput.java import Java

ROOT = Path(__file__).parents[2]
JAVA = Java(Path("/nonexistent/java"), 17, "17", "")
MIRROR = version_with("mirror", NEWEST_KAFKA)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("newest_kafka", ROOT / "scripts" / "newest_kafka.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def repository(kafka: str, mirror: str = MIRROR) -> dict[str, str]:
    """The newest releases in it."""
    return {"kafka_2.13": kafka, "connect-mirror": mirror}


@pytest.mark.parametrize("kafka", [NEWEST_KAFKA, "3.9.9", "4.3.10"])
def test_nothing_newer_is_exit_status_0(
    kafka: str, script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the repository is behind: numbers are compared, not letters."""
    assert script.main(repository(kafka).__getitem__) == 0
    assert capsys.readouterr().out == (
        f"Kafka {NEWEST_KAFKA}, the default, is the newest release that can be had\n"
    )


@pytest.mark.parametrize("kafka", ["4.10.0", "5.0.0", f"{NEWEST_KAFKA[:-1]}9"])
def test_a_newer_release_is_exit_status_1(
    kafka: str, script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(repository(kafka).__getitem__) == 1
    assert capsys.readouterr().out == (
        f"Kafka {kafka} is out, and the default is {NEWEST_KAFKA}: scripts/lock_jars.py {kafka}, then "
        "NEWEST_KAFKA in src/kaput/core.py\n"
    )


def test_a_later_mirror_maker_is_named(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """It may come out after the brokers."""
    assert script.main(repository(NEWEST_KAFKA, "99.0.0").__getitem__) == 1
    assert capsys.readouterr().out.startswith(f"connect-mirror 99.0.0 is out, and kaput has {MIRROR}: ")


def test_a_repository_that_does_not_answer_is_exit_status_4(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which says nothing about versions."""

    def refused(artifact: str) -> str:
        raise DistributionError("not found in the repository (is the network up?)")

    assert script.main(refused) == 4
    assert "is the network up?" in capsys.readouterr().err


def test_the_newest_release_is_that_of_the_jar_that_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ivy resolves `latest.release` by the repository's metadata."""
    asked: list[tuple[str, str, str]] = []

    def fetch(modules: Sequence[tuple[str, str, str]], java: Java, into: Path, on_file: object) -> None:
        asked.extend(modules)
        (into / "org.apache.kafka").mkdir()
        (into / "org.apache.kafka" / "kafka_2.13-4.5.1.jar").touch()

    monkeypatch.setattr(ivy, "fetch", fetch)
    assert ivy.newest("org.apache.kafka", "kafka_2.13", JAVA) == "4.5.1"
    assert asked == [("org.apache.kafka", "kafka_2.13", "latest.release")]
    monkeypatch.setattr(ivy, "fetch", lambda *_: None)
    with pytest.raises(DistributionError, match=r"named no newest release of org\.apache\.kafka"):
        ivy.newest("org.apache.kafka", "kafka_2.13", JAVA)
