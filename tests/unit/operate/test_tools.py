"""Kafka's tools by name: which class, and how each is told whom to ask."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from kaput.cluster.distribution import Distribution, resolve
from kaput.cluster.lock import LOCKS, read_lock, version_with
from kaput.core import NEWEST_KAFKA
from kaput.errors import UnknownFormat, UsageError
from kaput.java import Java, find_java
from kaput.operate.tools import TOOLS, command, find_tool

JAVA = Java(Path("/java/bin/java"), 21, "21", "build")
SERVERS = "127.0.0.1:9092"


@pytest.fixture
def kafka(tmp_path: Path) -> Distribution:
    """A Kafka of four tools."""
    jar = tmp_path / "kafka-tools-4.3.1.jar"
    with zipfile.ZipFile(jar, "w") as opened:
        for name in ("TopicCommand", "LeaderElectionCommand", "MetadataQuorumCommand", "DumpLogSegments"):
            opened.writestr(f"org/apache/kafka/tools/{name}.class", b"")
    return Distribution("4.3.1", (jar,), "id")


def behind(main: str, words: list[str]) -> list[str]:
    """What the tool itself is told."""
    return words[words.index(main) + 1 :]


@pytest.mark.parametrize("name", ["topics", "kafka-topics", "kafka-topics.sh", "topics.sh"])
def test_tool_is_found_by_every_spelling(name: str) -> None:
    assert find_tool(name).name == "topics"


def test_an_unknown_tool_gets_the_nearest_names() -> None:
    """And the way to all of them, where nothing is near."""
    with pytest.raises(UsageError, match=r"kafka-topicz\.sh: not one of Kafka's tools; did you mean topics"):
        find_tool("kafka-topicz.sh")
    with pytest.raises(UsageError, match="kaput tool --list"):
        find_tool("xyzxyzxyz")


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("topics", ["--list"], ["--list", "--bootstrap-server", SERVERS]),
        ("topics", ["--bootstrap-server", "other:1", "--list"], ["--bootstrap-server", "other:1", "--list"]),
        ("topics", ["--bootstrap-server=other:1"], ["--bootstrap-server=other:1"]),
        ("topics", ["--help"], ["--help"]),
        ("metadata-quorum", ["--bootstrap-controller", "c:1"], ["--bootstrap-controller", "c:1"]),
        (
            "metadata-quorum",
            ["describe", "--status"],
            ["--bootstrap-server", SERVERS, "describe", "--status"],
        ),
        ("dump-log", ["--files", "x"], ["--files", "x"]),
    ],
)
def test_bootstrap_servers_are_added_unless_given(
    name: str, given: list[str], told: list[str], kafka: Distribution
) -> None:
    """Never twice, and never to a tool that asks nobody."""
    call = find_tool(name)
    words = command(call, given, SERVERS, kafka, JAVA)
    assert behind(call.tool.mains[0], words) == told


ME = Path("/home/me.properties")


@pytest.mark.parametrize(
    ("name", "version", "given", "told"),
    [
        (
            "topics",
            "4.3.1",
            ["--list"],
            ["--list", "--bootstrap-server", SERVERS, "--command-config", str(ME)],
        ),
        (
            "topics",
            "4.3.1",
            ["--command-config", "x"],
            ["--command-config", "x", "--bootstrap-server", SERVERS],
        ),
        ("topics", "4.3.1", ["--bootstrap-server", "other:1"], ["--bootstrap-server", "other:1"]),
        ("topics", "4.3.1", ["--help"], ["--help"]),
        (
            "topics",
            "4.3.1",
            ["--config", "a=b"],
            ["--config", "a=b", "--bootstrap-server", SERVERS, "--command-config", str(ME)],
        ),
        ("leader-election", "4.3.1", [], ["--bootstrap-server", SERVERS, "--command-config", str(ME)]),
        ("leader-election", "3.9.2", [], ["--bootstrap-server", SERVERS, "--admin.config", str(ME)]),
        (
            "metadata-quorum",
            "3.9.2",
            ["describe"],
            ["--bootstrap-server", SERVERS, "--command-config", str(ME), "describe"],
        ),
        ("dump-log", "4.3.1", ["--files", "x"], ["--files", "x"]),
    ],
)
def test_client_config_is_added_with_the_bootstrap_servers(
    name: str, version: str, given: list[str], told: list[str], kafka: Distribution
) -> None:
    """By a file, never by a password on the command line; in the words of the tool's version."""
    call = find_tool(name)
    words = command(call, given, SERVERS, replace(kafka, version=version), JAVA, properties=ME)
    assert behind(call.tool.mains[0], words) == told


def test_tools_with_another_config_option() -> None:
    """Those of clients' own, before Kafka had one name for all; one tool cannot sign in at all."""
    others = {name: tool.config for name, tool in TOOLS.items() if tool.config != "--command-config"}
    assert others.pop("replica-verification") is None
    assert {name for name, option in others.items() if option == "--producer.config"} == {
        "console-producer", "producer-perf-test", "verifiable-producer",
    }  # fmt: skip
    assert all("consumer" in name for name, option in others.items() if option == "--consumer.config")


def test_without_a_cluster_nothing_is_added(kafka: Distribution) -> None:
    """The tool itself says what it lacks."""
    words = command(find_tool("topics"), ["--list"], None, kafka, JAVA)
    assert behind(TOOLS["topics"].mains[0], words) == ["--list"]


def test_preferred_replica_election_elects_preferred_leaders(kafka: Distribution) -> None:
    """preferred-replica-election elected preferred leaders; another type may be asked for all the same."""
    call, main = find_tool("kafka-preferred-replica-election.sh"), TOOLS["leader-election"].mains[0]
    words = command(call, ["--all-topic-partitions"], None, kafka, JAVA)
    assert behind(main, words) == ["--all-topic-partitions", "--election-type", "preferred"]
    given = ["--election-type", "unclean"]
    assert behind(main, command(call, given, None, kafka, JAVA)) == given


def test_run_class_runs_the_class_that_is_named_first(kafka: Distribution) -> None:
    """And nothing is added to its arguments."""
    words = command(find_tool("run-class"), ["my.Main", "--x"], SERVERS, kafka, JAVA)
    assert behind("my.Main", words) == ["--x"]
    with pytest.raises(UsageError, match="name a class"):
        command(find_tool("run-class"), [], SERVERS, kafka, JAVA)


def test_tool_missing_in_a_newer_kafka_is_one_that_kaput_does_not_know(kafka: Distribution) -> None:
    """It may be in another package there, as kafka-configs is since 4.4."""
    with pytest.raises(
        UnknownFormat, match=r"share-groups: Kafka 99\.0\.0 has it in another place.* works with"
    ):
        command(find_tool("share-groups"), [], SERVERS, replace(kafka, version="99.0.0"), JAVA)


def test_every_tool_is_in_the_jars_of_the_default_kafka() -> None:
    """Kafka moves its programs between packages: here it is noticed."""
    kafka = resolve(NEWEST_KAFKA, find_java())
    missing = {
        name
        for name, tool in TOOLS.items()
        if tool.mains and tool.more is None and not any(map(kafka.has_class, tool.mains))
    }
    assert missing == set()


def test_tool_missing_in_this_kafka_version_is_reported(kafka: Distribution) -> None:
    """Kafka 3.9 has no share groups, for example."""
    with pytest.raises(UsageError, match=r"share-groups: Kafka 4\.3\.1 has no such tool"):
        command(find_tool("share-groups"), [], SERVERS, kafka, JAVA)


@pytest.mark.parametrize(
    ("name", "successor"),
    [
        ("kafka-replay-log-producer.sh", "kaput replay"),
        ("simple-consumer-shell", "kaput peek"),
        ("kafka-server-stop", "kaput fault inject stop"),
    ],
)
def test_removed_tool_error_names_its_successor(name: str, successor: str) -> None:
    with pytest.raises(UsageError, match=successor):
        find_tool(name)


def test_mirror_maker_has_jars_of_its_own() -> None:
    """Which no install fetches that never mirrors; with each Kafka that there is."""
    more = TOOLS["mirror-maker"].more
    assert more == "mirror"
    for kafka in LOCKS.glob("kafka-*.lock"):
        version = kafka.stem.removeprefix("kafka-")
        mine = {(jar.group, jar.artifact) for jar in read_lock(version_with(more, version), more)}
        assert ("org.apache.kafka", "connect-mirror") in mine
        assert not mine & {(jar.group, jar.artifact) for jar in read_lock(version)}
