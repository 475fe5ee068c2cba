"""Every tool of `kaput tool`, for what it is there for, and kaput's successors of two, on one real cluster.

Those marked `tools` start a JVM or several each: `make tools` runs them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from driving import KAPUT, Standing
from kaput.core import NEWEST_KAFKA
from kaput.operate.replica_reader import RecordRange, peek
from kaput.operate.tools import TOOLS
from waiting import PATIENCE_S, answered, eventually, wait_for

_AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LINES = [f"{number},word {number}" for number in range(9)]


@pytest.fixture(scope="module")
def kaput(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """Three brokers, and the topic `words` with nine records, three a partition."""
    standing = Standing(tmp_path_factory.mktemp("s"))
    try:
        everybody = "super.users=User:ANONYMOUS"
        standing("up", "--detach", "--brokers", "3", "--config", _AUTHORIZER, "--config", everybody)
        make(standing, "words", 3)
        producer = Producer({"bootstrap.servers": servers_of(standing), "acks": "all"})
        for number, line in enumerate(LINES):
            key, _, value = line.partition(",")
            producer.produce("words", value, key, partition=number % 3, headers={"number": key})
        assert producer.flush(PATIENCE_S) == 0
        yield standing
    finally:
        standing("down", "--all")


def servers_of(kaput: Standing) -> str:
    (card,) = kaput.state.glob("kaput/clusters/*/lab/cluster.json")
    return str(json.loads(card.read_text())["bootstrap_servers"])


def make(kaput: Standing, topic: str, partitions: int = 1, *more: str) -> None:
    """A topic with three replicas."""
    shape = ["--partitions", str(partitions), "--replication-factor", "3"]
    kaput("tool", "topics", "--create", "--topic", topic, *shape, *more)


def read(kaput: Standing, topic: str, count: int) -> list[str]:
    """So many of its records, in the order of the alphabet."""
    words = ["--from-beginning", "--max-messages", str(count), "--timeout-ms", "30000"]
    told = kaput("tool", "console-consumer", "--topic", topic, "--isolation-level", "read_committed", *words)
    return sorted(told.split("\n")[:-1])


def leader_of(kaput: Standing, topic: str, partition: int = 0) -> int:
    every = kaput.json("status")["partitions"]
    (found,) = [p for p in every if (p["topic"], p["partition"]) == (topic, partition)]
    return int(found["leader"])


@pytest.mark.tools
def test_peek_reads_each_replica_and_replay_copies_each_record_once(kaput: Standing) -> None:
    """Each replica has the same, a dead broker's too; a second topic has each record once, as it was."""
    # A follower shows a moment later what it was given just now.
    assert eventually(
        lambda: all(len(told(kaput, "words", p, replica)) == 3 for p in range(3) for replica in (1, 2, 3)), 60
    )
    words = {partition: told(kaput, "words", partition) for partition in range(3)}
    values = sorted(str(record[2]) for each in words.values() for record in each)
    assert values == [line.split(",")[1] for line in LINES]
    assert [len(each) for each in words.values()] == [3, 3, 3]
    assert told(kaput, "words", 0, 2) == told(kaput, "words", 0, 3) == words[0]
    assert "has no replica" in kaput("peek", "words/0", "--replica", "9", status=2)
    make(kaput, "again", 3)
    assert kaput.json("replay", "words", "again", "--rate", "20")["copied_now"] == 9
    assert kaput.json("replay", "words", "again") == {
        "id": "kaput-replay-words-again",
        "copied": 9,
        "copied_now": 0,
        "partitions": {str(partition): len(each) for partition, each in words.items()},
    }
    assert eventually(lambda: {p: told(kaput, "again", p) for p in range(3)} == words)
    kaput("fault", "inject", "kill", "--target", "broker 1")
    dead = kaput.json("peek", "words/0", "--replica", "1")
    assert dead["source"] == "files"
    assert [record["value"] for record in dead["records"]] == [record[2] for record in words[0]]
    kaput("fault", "heal")


def told(kaput: Standing, topic: str, partition: int, replica: int = 1) -> list[tuple[object, ...]]:
    """What records say, in their order, as a replica has them: timestamps, keys, values, headers."""
    found = peek(servers_of(kaput), (topic, partition), replica, RecordRange(0, 10_000), None).records
    return [(r.timestamp_ms, r.key, (r.value or b"").decode(), r.headers) for r in found]


@pytest.mark.tools
def test_killed_topic_replay_resumes(kaput: Standing) -> None:
    """SIGKILL in the middle, three times, each time further on: at the end each record is there once."""
    make(kaput, "many", 3)
    make(kaput, "copies", 3)
    load = ["--num-records", "6000", "--record-size", "50", "--throughput", "-1"]
    kaput("tool", "producer-perf-test", "--topic", "many", *load)
    done = 0
    for _ in range(3):
        once = subprocess.Popen([*KAPUT, "replay", "many", "copies", "--rate", "300"], env=kaput.env)
        try:
            wait_for(lambda done=done: copied(kaput) > done, "one more transaction of the replay")
        finally:
            once.kill()
        assert once.wait(PATIENCE_S) == -signal.SIGKILL, "it had ended before"
        done = copied(kaput)
        assert 0 < done < 6000
    last = kaput.json("replay", "many", "copies")
    assert last["copied"] == 6000 and 0 < last["copied_now"] <= 6000 - done
    copies = {partition: committed(kaput, "copies", partition) for partition in range(3)}
    assert copies == {partition: committed(kaput, "many", partition) for partition in range(3)}
    assert sum(map(len, copies.values())) == 6000


def copied(kaput: Standing) -> int:
    """How many records of `many` the replay has copied and committed, by the positions of its group."""
    # Positions of a transaction whose end is open are told as they are, instead of waited for.
    settings = {"group.id": "kaput-replay-many-copies", "isolation.level": "read_uncommitted"}
    reader = Consumer({"bootstrap.servers": servers_of(kaput), **settings})
    places = [TopicPartition("many", partition) for partition in range(3)]
    try:
        found = answered(lambda: reader.committed(places, 30), "the positions of the replay")
    finally:
        reader.close()
    return sum(max(0, at.offset) for at in found)


def committed(kaput: Standing, topic: str, partition: int) -> list[tuple[object, ...]]:
    """The same of what a reader of committed records is shown: a kill leaves aborted ones in the log."""
    settings = {"group.id": "committed", "isolation.level": "read_committed", "enable.partition.eof": True}
    reader = Consumer({"bootstrap.servers": servers_of(kaput), **settings})
    reader.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[object, ...]] = []
    while (message := reader.poll(30)) is not None and message.error() is None:
        found.append((message.timestamp(), message.key(), message.value(), message.headers()))
    reader.close()
    assert message is not None and message.error().code() == KafkaError._PARTITION_EOF
    return found


# By tool: its arguments, and what it prints of its use. Topics: words, and what a case makes itself.
SIMPLE: dict[str, tuple[list[str], str]] = {
    "acls": (
        ["--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "words"],
        "principal=User:alice",
    ),
    "broker-api-versions": ([], "Produce(0):"),
    "cluster": (["cluster-id"], "Cluster ID:"),
    "console-consumer": (["--topic", "words", "--from-beginning", "--max-messages", "9"], "word 8"),
    "features": (["describe"], "eligible.leader.replicas.version"),
    "get-offsets": (["--topic", "words"], "words:2:"),
    "groups": (["--list"], "PROTOCOL"),
    "leader-election": (["--election-type", "preferred", "--all-topic-partitions"], ""),
    "log-dirs": (["--describe", "--topic-list", "words"], '"partition":"words-2"'),
    "metadata-quorum": (["describe", "--status"], "LeaderId:"),
    "producer-perf-test": (
        ["--topic", "perf", "--num-records", "100", "--record-size", "50", "--throughput", "-1"],
        "100 records sent",
    ),
    "consumer-perf-test": (
        ["--topic", "words", "--num-records", "9", "--timeout", "20000"],
        "data.consumed.in.MB",
    ),
    "share-consumer-perf-test": (
        ["--topic", "words", "--num-records", "9", "--group", "quick"],
        "data.consumed.in.MB",
    ),
    "run-class": (["org.apache.kafka.tools.TopicCommand", "--version"], NEWEST_KAFKA),
    "server-start": (["--version"], NEWEST_KAFKA),
    "storage": (["random-uuid"], ""),
    "streams-application-reset": (["--application-id", "app", "--input-topics", "words"], "words"),
    "streams-groups": (["--list"], ""),
    "topics": (["--describe", "--topic", "words"], "ReplicationFactor: 3"),
    "transactions": (["list"], "TransactionalId"),
    "verifiable-producer": (["--topic", "verified", "--max-messages", "10"], '"acked":10'),
    "verifiable-consumer": (
        ["--topic", "words", "--group-id", "verifying", "--max-messages", "9", "--reset-policy", "earliest"],
        "records_consumed",
    ),
}
# Tools that have a test of their own below, or in the two above.
OTHERS = {
    "client-metrics", "configs", "console-producer", "console-share-consumer", "consumer-groups",
    "delegation-tokens", "delete-records", "dump-log", "jmx", "mirror-maker", "reassign-partitions",
    "replica-verification", "share-groups", "verifiable-share-consumer",
}  # fmt: skip


def test_every_tool_has_a_case() -> None:
    """A new one has a case here."""
    assert set(SIMPLE) | OTHERS == set(TOOLS) and not set(SIMPLE) & OTHERS


@pytest.mark.tools
@pytest.mark.parametrize("name", SIMPLE)
def test_tool_works_by_short_and_old_name(kaput: Standing, name: str) -> None:
    """By its short name and its old one; kaput adds the brokers."""
    arguments, prints = SIMPLE[name]
    for topic in {"perf", "verified"} & set(arguments):
        make(kaput, topic, 1, "--if-not-exists")
    assert prints in kaput("tool", f"kafka-{name}.sh", *arguments)


@pytest.mark.tools
def test_topic_and_client_metrics_configs_are_altered(kaput: Standing) -> None:
    """Those of a topic, and what clients are asked to report."""
    topic = ["--entity-type", "topics", "--entity-name", "words"]
    kaput("tool", "configs", "--alter", *topic, "--add-config", "retention.ms=7200000")
    assert "retention.ms=7200000" in kaput("tool", "configs", "--describe", *topic)
    metrics = ["--metrics", "org.apache.kafka.producer.", "--interval", "30000"]
    kaput("tool", "client-metrics", "--alter", "--name", "asked", *metrics)
    assert "interval.ms=30000" in kaput("tool", "client-metrics", "--describe", "--name", "asked")


@pytest.mark.tools
def test_consumer_group_offsets_are_described_and_reset(kaput: Standing) -> None:
    """A group that has read, its lag, and its offsets set back."""
    read_as = ["--group", "reading", "--from-beginning", "--max-messages", "9", "--timeout-ms", "30000"]
    kaput("tool", "console-consumer", "--topic", "words", *read_as)
    assert "reading" in kaput("tool", "consumer-groups", "--describe", "--group", "reading")
    back = ["--reset-offsets", "--group", "reading", "--topic", "words", "--to-earliest", "--execute"]
    assert "words" in kaput("tool", "consumer-groups", *back)


@pytest.mark.tools
def test_console_producer_and_consumer_round_trip(kaput: Standing) -> None:
    """What stdin says is what stdout says."""
    make(kaput, "lines")
    kaput("tool", "console-producer", "--topic", "lines", "--sync", stdin="one\ntwo\n")
    assert read(kaput, "lines", 2) == ["one", "two"]


@pytest.mark.tools
def test_share_groups_are_consumed_and_described(kaput: Standing) -> None:
    """Read by two kinds of members, then described."""
    make(kaput, "shared")
    for group in ("sharing", "verified-sharing"):
        entity = ["--entity-type", "groups", "--entity-name", group]
        kaput("tool", "configs", "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest")
    kaput("tool", "console-producer", "--topic", "shared", stdin="one\ntwo\n")
    words = ["--topic", "shared", "--group", "sharing", "--max-messages", "2"]
    assert "two" in kaput("tool", "console-share-consumer", *words)
    assert "shared" in kaput("tool", "share-groups", "--describe", "--group", "sharing")
    words = ["--topic", "shared", "--group-id", "verified-sharing", "--max-messages", "2"]
    assert "records_consumed" in kaput("tool", "verifiable-share-consumer", *words)


@pytest.mark.tools
def test_log_dump_and_delete_records(kaput: Standing, tmp_path: Path) -> None:
    """A segment file printed; records deleted up to an offset."""
    folder = Path(kaput.state).glob("kaput/clusters/*/lab/nodes/1/data/words-0/*.log")
    assert "baseOffset: 0" in kaput("tool", "dump-log", "--print-data-log", "--files", str(next(folder)))
    make(kaput, "short")
    kaput("tool", "console-producer", "--topic", "short", stdin="one\ntwo\n")
    wanted = {"version": 1, "partitions": [{"topic": "short", "partition": 0, "offset": 1}]}
    (tmp_path / "delete.json").write_text(json.dumps(wanted))
    said = kaput("tool", "delete-records", "--offset-json-file", str(tmp_path / "delete.json"))
    assert "low_watermark: 1" in said


@pytest.mark.tools
def test_reassignment_and_preferred_leader_election(kaput: Standing, tmp_path: Path) -> None:
    """Planned, executed and verified; then led by who is preferred, by the tool's old name."""
    make(kaput, "moved", 1, "--if-not-exists")
    wanted = {"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [3, 2]}]}
    (tmp_path / "plan.json").write_text(json.dumps(wanted))
    plan = ["--reassignment-json-file", str(tmp_path / "plan.json")]
    assert "Successfully started" in kaput("tool", "reassign-partitions", "--execute", *plan)

    def done() -> bool:
        return "is completed" in kaput("tool", "reassign-partitions", "--verify", *plan)

    assert eventually(done)
    kaput("tool", "preferred-replica-election", "--all-topic-partitions")
    assert eventually(lambda: leader_of(kaput, "moved") == 3)


@pytest.mark.tools
def test_tool_error_and_exit_status_are_passed_through(kaput: Standing) -> None:
    """Its status, and its words: no tokens without a secret, no JVM at that address."""
    said = kaput("tool", "delegation-tokens", "--describe", status=1)
    assert "DelegationToken" in said or "delegation" in said.lower()
    once = ["--one-time", "true", "--jmx-url", "service:jmx:rmi:///jndi/rmi://127.0.0.1:1/jmxrmi"]
    assert "Could not connect to JMX url" in kaput("tool", "jmx", *once, status=1)


@pytest.mark.tools
def test_replica_verification_runs_until_interrupted(kaput: Standing) -> None:
    """It reports until Ctrl-C, which is its own."""
    words = ["replica-verification", "--topics-include", "words", "--report-interval-ms", "500"]
    assert _until("max lag is 0", [*KAPUT, "tool", *words], kaput.env) == 130


@pytest.mark.tools
def test_mirrormaker_tool_copies_a_topic(kaput: Standing, tmp_path: Path) -> None:
    """MirrorMaker, its jars fetched on first use, copies a topic (here into the same cluster, renamed)."""
    servers = kaput.json("status")["bootstrap_servers"]
    lines = [
        "clusters=a,b", f"a.bootstrap.servers={servers}", f"b.bootstrap.servers={servers}",
        "a->b.enabled=true", "a->b.topics=words", "replication.factor=1",
        "offset-syncs.topic.replication.factor=1",
        "checkpoints.topic.replication.factor=1", "heartbeats.topic.replication.factor=1",
        "config.storage.replication.factor=1", "offset.storage.replication.factor=1",
        "status.storage.replication.factor=1", "dedicated.mode.enable.internal.rest=false",
    ]  # fmt: skip
    (tmp_path / "mm2.properties").write_text("\n".join(lines) + "\n")
    mirror = subprocess.Popen(
        [*KAPUT, "tool", "mirror-maker", str(tmp_path / "mm2.properties")],
        env=kaput.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert eventually(lambda: "a.words" in kaput("tool", "topics", "--list"))
        assert read(kaput, "a.words", 9) == [line.split(",")[1] for line in LINES]
    finally:
        mirror.send_signal(signal.SIGINT)
        assert mirror.wait(PATIENCE_S) is not None


def _until(prints: str, command: list[str], env: dict[str, str]) -> int:
    """Runs it until it prints that, then interrupts it: its exit status. Fails after a minute."""
    running = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert running.stdout is not None
    seen, lines = [], running.stdout
    reading = threading.Thread(target=lambda: seen.extend(iter(lines.readline, b"")), daemon=True)
    reading.start()
    try:
        assert eventually(lambda: prints.encode() in b"".join(seen)), seen
    finally:
        running.send_signal(signal.SIGINT)
        status = running.wait(PATIENCE_S)
    return status
