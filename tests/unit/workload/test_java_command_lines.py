"""How Kafka's tools are called: options, and settings in a file that its owner alone can read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from kaput.cluster.access import Access
from kaput.cluster.distribution import Distribution
from kaput.errors import DistributionError
from kaput.java import Java
from kaput.scenario.model import Group, Producers
from kaput.scenario.producers import Transactions
from kaput.workload.java.command_lines import JavaTools, patience_ms

TOOLS = ("VerifiableConsumer",)


def jars(folder: Path, version: str, text: bytes = b"--command-config") -> Distribution:
    """A version whose tools know some option."""
    jar = folder / f"kafka-tools-{version}.jar"
    with zipfile.ZipFile(jar, "w") as opened:
        for tool in TOOLS:
            opened.writestr(f"org/apache/kafka/tools/{tool}.class", text)
    return Distribution(version, (jar,), version)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaTools:
    """Of a cluster of 4.3.1, with a Java that is never started."""
    java = Java(tmp_path / "java", 17, "17.0.1", "build")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kaput.workload.java.command_lines.find_java", lambda: java)
    older = jars(tmp_path, "3.9.2", b"--consumer.config")
    monkeypatch.setattr("kaput.workload.java.command_lines.resolve", lambda version, java: older)
    return JavaTools(tmp_path, jars(tmp_path, "4.3.1"), "4.3.1")


def after(words: list[str], option: str) -> str:
    """What an option is given."""
    return words[words.index(option) + 1]


def properties(words: list[str], option: str) -> dict[str, str]:
    """The file that a tool is given."""
    lines = Path(after(words, option)).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_credentials_are_only_in_a_temporary_folder(tools: JavaTools, tmp_path: Path) -> None:
    """Nor on the command line: each client by a file in a folder that is gone with the run."""
    private, asked = tmp_path / "private", list[str]()
    private.mkdir()
    secured = Access({"security.protocol": "SASL_SSL", "sasl.jaas.config": 'x password="hush";'})

    def access(cluster: str | None, user: str) -> Access:
        asked.append(user)
        return secured

    tools = JavaTools(tmp_path, jars(tmp_path, "4.3.1"), "4.3.1", access, lambda: private)
    group = Group(id="billing", topics=["orders"], client="java", config={"sasl.username": "nobody"})
    words = tools.member("billing-1", "h:1", "member-1", group)
    path = Path(after(words, "--command-config"))
    assert path.parent == private and path.stat().st_mode & 0o777 == 0o600 and "hush" not in " ".join(words)
    told = properties(words, "--command-config")
    assert told["security.protocol"] == "SASL_SSL" and "hush" in told["sasl.jaas.config"]
    assert asked == ["nobody"] and "sasl.username" not in told
    assert not list(tmp_path.glob("*.properties"))


def test_producer_command_line(tools: JavaTools) -> None:
    """Of the cluster's version or of another, with kaput's class behind the jars; settings are for stdin."""
    for version, jar in ((None, "kafka-tools-4.3.1.jar"), ("3.9.2", "kafka-tools-3.9.2.jar")):
        words = tools.producer(version)
        *jars, ours = after(words, "-cp").split(":")
        assert Path(jars[0]).name == jar and (Path(ours) / "KaputProducer.class").is_file()
        assert words[-1] == "KaputProducer"


@pytest.mark.parametrize(
    ("group", "options", "absent"),
    [
        ({}, {"--reset-policy": "earliest", "--session-timeout": "45000"}, ["--enable-autocommit"]),
        (
            {"config": {"session.timeout.ms": 6000, "auto.offset.reset": "latest"}},
            {"--reset-policy": "latest", "--session-timeout": "6000"},
            ["--group-protocol"],
        ),
        (
            {"assignor": "cooperative-sticky", "static": True},
            {
                "--assignment-strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
                "--group-instance-id": "billing-member-2",
            },
            [],
        ),
        (
            {"type": "consumer", "commit": "auto"},
            {"--group-protocol": "consumer"},
            ["--assignment-strategy", "--session-timeout"],
        ),
    ],
)
def test_member_command_line(
    tools: JavaTools, group: dict[str, Any], options: dict[str, str], absent: list[str]
) -> None:
    """What the tool decides on its command line is taken out of the settings."""
    spec = Group.model_validate({"id": "billing", "topics": ["orders"], "client": "java", **group})
    words = tools.member("billing-member-2", "h:1", "member-2", spec)
    assert {option: after(words, option) for option in options} == options
    assert not set(absent) & set(words) and "--verbose" in words
    assert ("--enable-autocommit" in words) == (spec.commit == "auto")
    told = properties(words, "--command-config")
    assert (told["client.id"], told["isolation.level"]) == ("kaput-billing-member-2", "read_committed")


def test_member_of_another_client_version(tools: JavaTools) -> None:
    """Its own jars, and the option that it knows."""
    group = Group(id="g", topics=["orders"], client="java", client_version="3.9.2")
    words = tools.member("g-member-1", "h:1", "member-1", group)
    assert "kafka-tools-3.9.2.jar" in after(words, "-cp") and "--consumer.config" in words
    with pytest.raises(DistributionError, match=r"Kafka 3\.9\.2 has no VerifiableShareConsumer"):
        tools.share_member("g-member-1", "h:1", "member-1", group)


def test_producer_patience_covers_the_delivery_timeout() -> None:
    """For the outcome of its last message."""
    spec = Producers(topic="t", messages=1, client="java")
    assert patience_ms(spec) == 150_000
    assert patience_ms(spec.model_copy(update={"transactions": Transactions()})) == 270_000
    assert patience_ms(spec.model_copy(update={"config": {"delivery.timeout.ms": 300_000}})) == 330_000
    assert patience_ms(spec.model_copy(update={"patience": 600_000})) == 600_000
