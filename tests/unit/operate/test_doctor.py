"""Each check of the doctor on a picture that shows it, and on one that does not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from kafka.errors import KafkaConnectionError

from kaput.cli.doctor import text_of
from kaput.cluster.admin.requests import THROTTLED_RATES, THROTTLED_REPLICAS
from kaput.cluster.admin.resources import AccessRule
from kaput.errors import UsageError
from kaput.operate.doctor.checks import CHECKS
from kaput.operate.doctor.diagnosis import Address, as_json, as_sarif, at_or_above, diagnose, read_baseline
from kaput.operate.doctor.snapshot import (
    Broker,
    ClusterSnapshot,
    Commit,
    GroupSnapshot,
    InterruptedReassignment,
    OpenTransaction,
    Quorum,
    Replicas,
    TopicState,
    retry_connection_errors,
)
from kaput.operate.tools import TOOLS

SOUND_TOPIC = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
SOUND_BROKER = {
    "default.replication.factor": "3",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
}
SOUND_CLIENT = {"acks": "all", "enable.idempotence": "true"}


def partition(number: int = 0, leader: int | None = 1, isr: tuple[int, ...] = (1, 2, 3)) -> Replicas:
    """With three replicas, 1 the preferred leader."""
    return Replicas(number, leader, (1, 2, 3), isr)


def commit(committed: int = 90, start: int = 0, end: int = 100, aged: int | None = 50) -> Commit:
    return Commit("orders", 0, committed, start, end, aged)


def sound() -> ClusterSnapshot:
    """A cluster in which nothing is found."""
    return ClusterSnapshot(
        [Broker(number, f"rack-{number}", SOUND_BROKER) for number in (1, 2, 3)],
        [TopicState("orders", [partition()], SOUND_TOPIC)],
        [GroupSnapshot("billing", True, [commit()])],
        Quorum(101, {101: 5000, 102: 4990, 103: 5000}),
        SOUND_CLIENT,
    )


def with_topic(name: str = "orders", *partitions: Replicas, **config: str) -> ClusterSnapshot:
    """The sound one with another topic in place of its own."""
    settings = {**SOUND_TOPIC, **{key.replace("_", "."): value for key, value in config.items()}}
    return replace(sound(), topics=[TopicState(name, partitions or (partition(),), settings)])


def with_brokers(**config: str) -> ClusterSnapshot:
    """The sound one with other settings of every broker."""
    settings = {**SOUND_BROKER, **{key.replace("_", "."): value for key, value in config.items()}}
    return replace(sound(), brokers=[replace(broker, config=settings) for broker in sound().brokers])


def with_groups(*groups: GroupSnapshot) -> ClusterSnapshot:
    """The sound one with other groups."""
    return replace(sound(), groups=groups)


def with_voters(*offsets: int | None) -> ClusterSnapshot:
    """The sound one with voters from 101 on at these offsets."""
    return replace(sound(), quorum=Quorum(101, dict(enumerate(offsets, 101))))


def with_transaction(transactional_id: str | None, silent_s: float = 90) -> ClusterSnapshot:
    """The sound one with an open transaction."""
    held = OpenTransaction("orders", 0, 12, 4000, transactional_id, silent_s, 30)
    return replace(sound(), transactions=[held])


def one_rack() -> ClusterSnapshot:
    """Four brokers in two racks, all replicas in one of them."""
    brokers = [Broker(number, "a" if number < 4 else "b", SOUND_BROKER) for number in (1, 2, 3, 4)]
    return replace(sound(), brokers=brokers)


def lopsided() -> ClusterSnapshot:
    """Twelve partitions, all led by broker 1."""
    return with_topic("orders", *(partition(number) for number in range(12)))


# By check: a picture that shows it, what is found there, and pictures nearest to it that do not.
SHOWN: dict[str, tuple[Callable[[], ClusterSnapshot], str, list[Callable[[], ClusterSnapshot]]]] = {
    "KP001": (
        lambda: with_topic("orders", Replicas(0, 2, (2,), (2,)), partition(1)),
        "topic orders: partition 0 with one replica (broker 2)",
        [lambda: with_topic("orders", Replicas(0, 2, (2, 3), (2, 3)))],
    ),
    "KP002": (
        lambda: with_topic(min_insync_replicas="3"),
        "topic orders: replication factor 3, min.insync.replicas 3",
        [sound, lambda: with_topic("orders", Replicas(0, 1, (1,), (1,)), min_insync_replicas="1")],
    ),
    "KP003": (
        lambda: with_topic(min_insync_replicas="1"),
        "topic orders: replication factor 3, min.insync.replicas 1",
        [sound, lambda: with_topic("__consumer_offsets", min_insync_replicas="1")],
    ),
    "KP004": (
        lambda: with_topic(unclean_leader_election_enable="true"),
        "topic orders: unclean.leader.election.enable=true",
        [sound],
    ),
    "KP005": (
        lambda: with_brokers(default_replication_factor="1"),
        "every broker: default.replication.factor=1",
        [sound],
    ),
    "KP006": (one_rack, "topic orders: partition 0: every replica in rack a", [sound]),
    "KP007": (
        lopsided,
        "broker 1: leads 12 of 12 partitions; 3 brokers",
        [lambda: with_topic("orders", *(partition(n, 1 + n % 3) for n in range(12)))],
    ),
    "KP008": (
        lambda: with_topic("orders", partition(leader=2)),
        "topic orders: partition 0 led by 2",
        [sound, lambda: with_topic("orders", partition(leader=None))],
    ),
    "KP009": (
        lambda: with_topic("orders", partition(isr=(1, 2))),
        "topic orders: partition 0 without replica 3 in sync",
        [sound],
    ),
    "KP010": (
        lambda: with_topic("orders", partition(isr=(1,))),
        "topic orders: partition 0: ISR 1, min.insync.replicas 2",
        [lambda: with_topic("orders", partition(isr=(1, 2)))],
    ),
    "KP011": (
        lambda: with_topic("orders", partition(leader=None, isr=(3,))),
        "topic orders: partition 0 without a leader; last in sync: 3",
        [sound],
    ),
    "KP012": (lambda: with_voters(5000), "metadata quorum: the only voter is 101", [sound]),
    "KP013": (
        lambda: with_voters(5000, 5000),
        "metadata quorum: 2 voters: 101, 102",
        [sound, lambda: with_voters(1)],
    ),
    "KP014": (
        lambda: with_voters(5000, 3999, None),
        "controller 102: 1,001 records behind",
        [lambda: with_voters(5000, 4000, 5000)],
    ),
    "KP015": (
        lambda: with_groups(GroupSnapshot("billing", True, [commit(committed=40, aged=50)])),
        "group billing, orders/0: 10 unread records are older than 80 % of retention.ms",
        [
            lambda: with_groups(GroupSnapshot("billing", True, [commit(committed=50, aged=50)])),
            lambda: with_groups(GroupSnapshot("billing", True, [commit(committed=40, aged=None)])),
            lambda: with_groups(
                GroupSnapshot("billing", True, [replace(commit(99, aged=100), only_markers=True)])
            ),
        ],
    ),
    "KP016": (
        lambda: with_brokers(auto_create_topics_enable="true"),
        "every broker: auto.create.topics.enable=true",
        [sound],
    ),
    "KP017": (
        lambda: replace(sound(), client={"acks": "1"}),
        "client: acks=1",
        [sound, lambda: replace(sound(), client={"acks": "-1"}), lambda: replace(sound(), client={})],
    ),
    "KP018": (
        lambda: replace(sound(), client={"enable.idempotence": "false"}),
        "client: enable.idempotence=false, max.in.flight.requests.per.connection=5",
        [
            sound,
            lambda: replace(
                sound(),
                client={"enable.idempotence": "false", "max.in.flight.requests.per.connection": "1"},
            ),
            lambda: replace(sound(), client={"enable.idempotence": "false", "retries": "0"}),
        ],
    ),
    "KP019": (
        lambda: with_groups(GroupSnapshot("billing", False, [commit()])),
        "group billing: no member, 10 offsets from its commits to the end",
        [
            sound,
            lambda: with_groups(GroupSnapshot("billing", False, [commit(committed=100)])),
            lambda: with_groups(GroupSnapshot("billing", False, [replace(commit(99), only_markers=True)])),
        ],
    ),
    "KP020": (
        lambda: with_groups(GroupSnapshot("billing", True, [commit(committed=10, start=20, aged=None)])),
        "group billing, orders/0: committed offset 10, but the log starts at 20",
        [lambda: with_groups(GroupSnapshot("billing", True, [commit(committed=20, start=20, aged=None)]))],
    ),
    "KP021": (
        lambda: with_brokers(offsets_topic_replication_factor="1"),
        "every broker (__consumer_offsets): offsets.topic.replication.factor=1",
        [sound, lambda: with_topic("__consumer_offsets")],
    ),
    "KP022": (
        lambda: with_brokers(follower_replication_throttled_rate="50000000"),
        "every broker: follower.replication.throttled.rate=50000000 "
        "(no topic lists follower replicas: none is slowed until one does)",
        [
            sound,
            lambda: with_brokers(follower_replication_throttled_rate="9223372036854775807"),
            lambda: replace(with_brokers(follower_replication_throttled_rate="50000000"), moving=True),
            lambda: with_topic(follower_replication_throttled_replicas=""),
        ],
    ),
    "KP023": (
        lambda: replace(sound(), interrupted=InterruptedReassignment(4, 50_000_000, "/before.json")),
        "reassignment: 4 partitions were to be reassigned, with a throttle of 50,000,000 bytes per second",
        [sound, lambda: replace(sound(), moving=True)],
    ),
    "KP024": (
        lambda: with_transaction(None),
        "orders/0, producer id 4000: open since offset 12, no record for 90 s, 30 offsets held back; "
        "its coordinator has no open transaction, so it never ends",
        [sound, lambda: with_transaction("billing-1", silent_s=59)],
    ),
}


def acl(operation: str, resource: str = "topic", name: str = "orders", **other: str) -> AccessRule:
    """An ACL that allows User:app something, unless `other` says otherwise."""
    known = AccessRule(resource, name, "literal", "User:app", "*", operation, "Allow")
    return known._replace(**other)


def ruled(*rules: AccessRule) -> ClusterSnapshot:
    """The sound one with an authorizer, and a group that everybody may use."""
    return replace(sound(), rules=frozenset({acl("Read", "group", "*", principal="User:*"), *rules}))


def limited(**quotas: float) -> ClusterSnapshot:
    """The sound one with quotas of every client id, and messages of at most 1,000,000 bytes."""
    return replace(with_brokers(message_max_bytes="1000000"), quotas={"client-id <default>": quotas})


DENIED = acl("Write", permission="Deny")
SHOWN |= {
    "KP025": (
        lambda: ruled(acl("All", name="or", pattern="prefixed"), DENIED._replace(host="10.0.0.1")),
        "topic orders, User:app: allowed: All on topic or... (prefix) for User:app; denied, unless it is a "
        "super user: Write on topic orders for User:app from 10.0.0.1",
        [
            lambda: ruled(DENIED),
            lambda: ruled(DENIED, acl("Read")),
            lambda: ruled(DENIED, acl("Write", principal="User:other")),
            lambda: ruled(DENIED._replace(host="10.0.0.1"), acl("Write", host="10.0.0.2")),
            lambda: ruled(DENIED._replace(name="orders-2"), acl("Write", name="*")),
            lambda: ruled(DENIED._replace(resource="group"), acl("Write")),
        ],
    ),
    "KP026": (
        lambda: replace(sound(), rules=frozenset({acl("Read"), acl("Describe", "group")})),
        "User:app, topic orders: allowed: Read on topic orders for User:app; no ACL allows it Read on any "
        "group: refused there, unless it is a super user or allow.everyone.if.no.acl.found is on",
        [
            lambda: ruled(acl("Read")),
            lambda: replace(
                sound(), rules=frozenset({acl("All"), acl("All", "group", "b", pattern="prefixed")})
            ),
            lambda: replace(sound(), rules=frozenset({acl("Write")})),
        ],
    ),
    "KP027": (
        lambda: limited(producer_byte_rate=20_000.0),
        "client-id <default>: producer_byte_rate is 20,000 bytes a second at each broker: a message of "
        "message.max.bytes (1,000,000) is the quota of 50.0 s, and Kafka takes the mean of 10 s",
        [lambda: limited(consumer_byte_rate=1e5), lambda: limited(request_percentage=10.0), limited],
    ),
    "KP028": (
        lambda: replace(sound(), quorum=None, no_controller=True),
        "metadata quorum: no broker that answers reaches a leader of it",
        [lambda: replace(sound(), quorum=None)],
    ),
}


def found(snapshot: ClusterSnapshot, number: str) -> list[str]:
    """`resource: evidence` of one check."""
    return [f"{each.resource}: {each.evidence}" for each in diagnose(snapshot) if each.id == number]


def test_remedy_of_an_open_transaction() -> None:
    """One that its coordinator has open ends by its timeout; another one only by an abort."""
    (hanging,) = diagnose(with_transaction(None))
    assert hanging.remedy == "kaput tool transactions abort --topic orders --partition 0 --start-offset 12"
    (waiting,) = diagnose(with_transaction("billing-1"))
    assert "transactional id billing-1" in waiting.evidence
    assert "transaction.timeout.ms" in waiting.remedy


def test_remedies_name_the_cluster_that_was_examined() -> None:
    """As it was named, in the words of each command; kaput grow is only for clusters of kaput up."""
    theirs = Address("kafka:9092", Path("my client.properties"))
    (abort,) = diagnose(with_transaction(None), address=theirs)
    assert abort.remedy.startswith(
        "kaput tool transactions --bootstrap-server kafka:9092 --command-config 'my client.properties' abort "
    )
    alone = with_topic("orders", Replicas(0, 1, (1,), (1,)))
    alone = replace(alone, brokers=[Broker(1, None, SOUND_BROKER)])
    assert any("there are 3 (kaput grow 2), then" in each.remedy for each in diagnose(alone))
    (fixed,) = [each for each in diagnose(alone, address=Address("kafka:9092")) if each.id == "KP001"]
    assert "there are 3, then: kaput reassign --bootstrap-servers kafka:9092 --repl" in fixed.remedy
    moved = Address("kafka:9092", Path("c")).added_to("first kaput reassign --topic a && kaput reassign --b")
    there = "--bootstrap-servers kafka:9092 --command-config c"
    assert moved == f"first kaput reassign {there} --topic a && kaput reassign {there} --b"
    assert Address(cluster="lab").added_to("kaput grow 2") == "kaput grow --cluster lab 2"
    elect = Address("a:1", Path("c")).added_to("kaput tool leader-election --x")
    assert elect == "kaput tool leader-election --bootstrap-server a:1 --command-config c --x"


def test_every_tool_of_a_remedy_is_one_of_kafkas() -> None:
    """So that its options are known."""
    source = (Path(__file__).parents[3] / "src/kaput/operate/doctor/checks.py").read_text()
    named = set(re.findall(r"kaput tool ([a-z-]+)", source))
    assert named and named <= set(TOOLS)


def test_healthy_cluster_has_no_findings() -> None:
    assert diagnose(sound()) == []


@pytest.mark.parametrize("number", SHOWN)
def test_check_finds_its_problem(number: str) -> None:
    """With what was seen, and a remedy."""
    snapshot, evidence, _ = SHOWN[number]
    assert evidence in found(snapshot(), number)
    assert all(each.remedy for each in diagnose(snapshot()))


@pytest.mark.parametrize("number", SHOWN)
def test_check_has_no_false_positives(number: str) -> None:
    """On the pictures that are nearest."""
    for snapshot in SHOWN[number][2]:
        assert found(snapshot(), number) == []


def test_every_check_has_a_test_case() -> None:
    """And no number is given twice."""
    numbers = [check.id for check in CHECKS]
    assert sorted(SHOWN) == sorted(numbers) and len(set(numbers)) == len(numbers)
    assert all(absent for _, _, absent in SHOWN.values())


def test_every_check_is_in_the_manual() -> None:
    """With the severity that it has."""
    manual = (Path(__file__).parents[3] / "docs" / "DOCTOR.md").read_text()
    for check in CHECKS:
        assert f"| {check.id} | {check.severity} |" in manual


def obeyed(snapshot: ClusterSnapshot, remedy: str) -> ClusterSnapshot:
    """The picture after the commands of a remedy for the only topic, brokers added first where it says so."""
    (topic,) = snapshot.topics
    if "until there are 3" in remedy:
        brokers = [Broker(number, None, SOUND_BROKER) for number in (1, 2, 3)]
        snapshot = replace(snapshot, brokers=brokers)
    for command in remedy.rpartition("then: ")[2].split(" && "):
        words = command.split()
        if words[:2] == ["kaput", "reassign"]:
            replicas = range(1, 1 + int(words[words.index("--replication-factor") + 1]))
            assert len(replicas) <= len(snapshot.brokers)
            topic = replace(topic, partitions=[Replicas(0, 1, tuple(replicas), tuple(replicas))])
        else:
            key, value = words[words.index("--add-config") + 1].split("=")
            topic = replace(topic, config={**topic.config, key: value})
    return replace(snapshot, topics=[topic])


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
def test_remedies_converge(brokers: int) -> None:
    """No remedy brings back what another one was for: two steps, and nothing is found."""
    for factor, least, name in product([1, 2, 3, 5], "1235", ["orders", "__consumer_offsets"]):
        assert _left_by_remedies(brokers, factor, least, name) == [], (factor, least, name)


def _left_by_remedies(brokers: int, factor: int, least: str, name: str) -> list[str]:
    replicas = tuple(range(1, 1 + factor))
    snapshot = with_topic(name, Replicas(0, 1, replicas, replicas), min_insync_replicas=least)
    snapshot = replace(
        snapshot,
        brokers=[Broker(number, None, SOUND_BROKER) for number in range(1, 1 + max(brokers, factor))],
    )
    for _ in range(2):
        critical = [each for each in diagnose(snapshot) if each.severity == "critical"]
        if critical:
            snapshot = obeyed(snapshot, critical[0].remedy)
    return [each.id for each in diagnose(snapshot) if each.severity == "critical"]


def test_remedy_removes_each_leftover_throttle() -> None:
    """For just the brokers and topics that have one; an interrupted reassignment takes off its own."""
    replicas = ",".join(f"{number}:1" for number in range(40))
    snapshot = with_topic(leader_replication_throttled_replicas=replicas)
    rate = {"leader.replication.throttled.rate": "1"}
    snapshot = replace(snapshot, brokers=[*snapshot.brokers[:2], Broker(3, "rack-3", SOUND_BROKER | rate)])
    brokers, topic = [each for each in diagnose(snapshot) if each.id == "KP022"]
    assert (brokers.resource, topic.resource) == ("broker 3", "topic orders")
    assert len(topic.evidence) < 90 and topic.evidence.endswith(",...")
    assert brokers.remedy == f"kaput tool configs --alter --broker 3 --delete-config {THROTTLED_RATES[0]}"
    assert topic.remedy.endswith(f"--topic orders --delete-config {','.join(THROTTLED_REPLICAS)}")
    interrupted = replace(snapshot, interrupted=InterruptedReassignment(4, None, "/before.json"))
    assert {each.remedy for each in diagnose(interrupted) if each.id == "KP022"} == {
        "kaput reassign --resume"
    }


def test_half_of_a_throttle_is_named() -> None:
    """A rate without replicas, replicas without a rate; and what is set for all brokers by default."""
    (rate,) = found(with_brokers(leader_replication_throttled_rate="1"), "KP022")
    assert rate.endswith("rate=1 (no topic lists leader replicas: none is slowed until one does)")
    (replicas,) = found(with_topic(leader_replication_throttled_replicas="*"), "KP022")
    assert replicas.endswith("replicas=* (no broker has a leader rate: nothing is slowed until one gets one)")
    both = with_brokers(leader_replication_throttled_rate="1")
    both = replace(both, topics=with_topic(follower_replication_throttled_replicas="*").topics)
    rate, replicas = found(both, "KP022")  # of two sides: nothing is slowed
    assert "no topic lists leader replicas" in rate and "no broker has a follower rate" in replicas
    both = replace(both, topics=with_topic(leader_replication_throttled_replicas="*").topics)
    assert not any("(no" in each for each in found(both, "KP022"))
    log_dirs = "replica.alter.log.dirs.io.max.bytes.per.second"
    snapshot = with_brokers(**{log_dirs.replace(".", "_"): "5000"})
    assert found(snapshot, "KP022") == [f"every broker: {log_dirs}=5000"]
    brokers = [replace(broker, defaults=frozenset({log_dirs})) for broker in snapshot.brokers]
    (default,) = [each for each in diagnose(replace(snapshot, brokers=brokers)) if each.id == "KP022"]
    assert default.resource == "all brokers by default"
    assert default.remedy == f"kaput tool configs --alter --broker-defaults --delete-config {log_dirs}"


def test_an_open_transaction_is_aborted_only_if_its_coordinator_was_asked() -> None:
    """Without the leader of its coordinator's partition it may be alive; and one that is decided is not begun
    again.
    """
    held = OpenTransaction("orders", 0, 12, 4000, None, 90, 30)

    def finding(transaction: OpenTransaction) -> str:
        snapshot = replace(sound(), transactions=[transaction])
        (hit,) = [each for each in diagnose(snapshot) if each.id == "KP024"]
        return f"{hit.evidence}: {hit.remedy}"

    assert "never ends: kaput tool transactions abort" in finding(held)
    unasked = finding(replace(held, all_asked=False))
    assert "may be one of those without a leader" in unasked and "transactions abort" not in unasked
    begun = replace(held, transactional_id="billing-1")
    assert "start its producer again" in finding(begun)
    decided = finding(replace(begun, decided=True))
    assert "end is decided" in decided and "start its producer" not in decided


def test_remedies_of_another_kind_have_their_own_line() -> None:
    """Those that differ in their options alone are like the first."""
    held = OpenTransaction("orders", 0, 12, 4000, None, 90, 30)
    later = replace(held, start=20, producer_id=4001)
    own = [replace(held, producer_id=5000 + n, transactional_id=f"a-{n}") for n in range(2)]
    snapshot = replace(sound(), transactions=[held, later, *own])
    text = text_of([each for each in diagnose(snapshot) if each.id == "KP024"], ()).plain
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("remedy")]
    assert [line.endswith("(and 1 like it)") for line in lines] == [True, True]
    assert "transactions abort" in lines[0] and "start its producer again" in lines[1]


def test_single_broker_lab_cluster_has_only_info_findings() -> None:
    """What follows from it is information there; elsewhere, and if more brokers are down, it is a finding."""
    config = {**SOUND_BROKER, "default.replication.factor": "1", "offsets.topic.replication.factor": "1"}
    snapshot = replace(
        with_topic("orders", Replicas(0, 1, (1,), (1,)), min_insync_replicas="1"),
        brokers=[Broker(1, None, config)],
        quorum=Quorum(1, {1: 10}),
        groups=[],
    )

    def severities(own: bool, of: ClusterSnapshot = snapshot) -> dict[str, str]:
        return {each.id: each.severity for each in diagnose(of, own=own)}

    assert severities(False) == {
        "KP001": "critical", "KP005": "warning", "KP012": "critical", "KP021": "warning",
    }  # fmt: skip
    assert severities(True) == dict.fromkeys(["KP001", "KP005", "KP012", "KP021"], "info")
    assert all("the cluster has one broker" in each.evidence for each in diagnose(snapshot, own=True))
    unclean = replace(snapshot, brokers=[Broker(1, None, {**config, "auto.create.topics.enable": "true"})])
    assert severities(True, unclean)["KP016"] == "warning"
    missing = replace(snapshot, topics=[TopicState("orders", [Replicas(0, 1, (1, 2), (1,))], SOUND_TOPIC)])
    assert severities(True, missing)["KP012"] == "critical"


def test_missing_broker_is_named_in_the_remedy() -> None:
    """Where Kafka shows no ISR it is the replicas' broker; and it need not be added a second time."""
    snapshot = with_topic("orders", Replicas(0, None, (2,), ()))
    snapshot = replace(snapshot, brokers=[Broker(1, None, SOUND_BROKER)])
    alone, offline = [each for each in diagnose(snapshot) if each.id in ("KP001", "KP011")]
    assert offline.evidence.endswith("last in sync: not known")
    assert offline.remedy.startswith("bring back broker 2;")
    assert alone.remedy.startswith("bring back broker 2, then: add brokers until there are 3 (kaput grow 1)")


def test_min_isr_above_the_replication_factor_rejects_nothing() -> None:
    """Brokers require no more replicas than there are; with one of them missing it does."""

    def rejecting(*partitions: Replicas) -> list[str]:
        found = diagnose(with_topic("orders", *partitions, min_insync_replicas="4"))
        return [each.remedy for each in found if each.id == "KP010"]

    assert rejecting(Replicas(0, 1, (1,), (1,))) == rejecting(partition()) == []
    assert rejecting(partition(isr=(1, 2))) == ["bring back broker 3"]


def test_remedy_for_leader_imbalance_depends_on_preferred_leaders() -> None:
    """Where one broker leads nearly all because it is to lead them, another one has to be preferred."""

    def remedy(snapshot: ClusterSnapshot) -> str:
        (found_there,) = [each for each in diagnose(snapshot) if each.id == "KP007"]
        return found_there.remedy

    assert remedy(lopsided()) == "kaput reassign --balance --all-topics"
    spread = [Replicas(n, 1, (1 + n % 3, 1 + (n + 1) % 3, 1 + (n + 2) % 3), (1, 2, 3)) for n in range(12)]
    assert remedy(with_topic("orders", *spread)).startswith("kaput tool leader-election")


def bad() -> ClusterSnapshot:
    return with_topic("orders", partition(leader=2, isr=(2, 3)), min_insync_replicas="1")


def test_findings_are_sorted_by_severity() -> None:
    findings = diagnose(bad())
    assert [(f.id, f.severity) for f in findings] == [
        ("KP003", "critical"),
        ("KP009", "warning"),
        ("KP008", "info"),
    ]
    assert at_or_above(findings, "critical") and at_or_above(findings[1:], "warning")
    assert not at_or_above(findings[1:], "critical") and not at_or_above([], "info")


def test_baseline_suppresses_known_findings(tmp_path: Path) -> None:
    """As this very program printed it, or as lines; numbers in the evidence may change."""
    path = tmp_path / "known"
    path.write_text(as_json(diagnose(bad())[:2], []))
    assert [f.id for f in diagnose(bad(), read_baseline(path))] == ["KP008"]
    path.write_text("# known since spring\nKP009 topic orders\n\nKP008 topic orders\n")
    assert [f.id for f in diagnose(bad(), read_baseline(path))] == ["KP003"]
    path.write_text("{")
    with pytest.raises(UsageError, match="known: neither lines"):
        read_baseline(path)
    with pytest.raises(UsageError, match="no such file"):
        read_baseline(tmp_path / "nowhere")


def test_sarif_has_a_rule_for_each_check_and_a_result_for_each_finding() -> None:
    """With levels that code hosts know."""
    document = json.loads(as_sarif(diagnose(bad())))
    (run,) = document["runs"]
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == set(SHOWN)
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [
        ("KP003", "error"),
        ("KP009", "warning"),
        ("KP008", "note"),
    ]
    assert len({r["partialFingerprints"]["kaput/v1"] for r in run["results"]}) == 3


def test_connection_errors_of_a_dying_broker_are_retried() -> None:
    """It is still in the metadata, so it is asked, and does not answer; the others are asked again."""
    refused = KafkaConnectionError("111 ECONNREFUSED")
    answers = iter([refused, refused, sound()])

    def look() -> ClusterSnapshot:
        answer = next(answers)
        if isinstance(answer, KafkaConnectionError):
            raise answer
        return answer

    assert retry_connection_errors(look) == sound()
    with pytest.raises(KafkaConnectionError):
        retry_connection_errors(lambda: (_ for _ in ()).throw(refused), timeout_s=0)
