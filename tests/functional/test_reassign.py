"""One replica becomes three on a real cluster, killed in the middle; then the doctor mends the rest."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import kaput
from driving import KAPUT
from kaput.cluster.access import OPEN
from kaput.cluster.admin.reassignments import ReassignmentClient, reassignment_client
from kaput.cluster.admin.requests import THROTTLED_RATES as RATES
from kaput.cluster.admin.requests import THROTTLED_REPLICAS as REPLICAS
from kaput.operate.standing_cluster import StandingCluster
from waiting import PATIENCE_S, answered, eventually

SLOW, FAST = "2MB", "500MB"
MIN_ISR = "min.insync.replicas"
PARTITIONS, RECORDS, PAYLOAD = 4, 1200, 10_000  # 12 MB, twice


@pytest.fixture
def lab() -> Iterator[StandingCluster]:
    """Three brokers, on the first of which everything is."""
    with kaput.lab(brokers=3, config={"offsets.topic.replication.factor": 1}) as started:
        started.create_topic("orders", assignment=[[1]] * PARTITIONS, partitions=PARTITIONS)
        yield started


@pytest.fixture
def racks() -> Iterator[StandingCluster]:
    """Four brokers in two racks; everything is on the two in one of them."""
    config = {"offsets.topic.replication.factor": 1}
    with kaput.lab(brokers=4, controllers=1, racks=["east", "west"], config=config) as started:
        started.create_topic("orders", assignment=[[1, 3]] * PARTITIONS, partitions=PARTITIONS)
        yield started


@pytest.fixture
def cluster(lab: StandingCluster) -> Iterator[ReassignmentClient]:
    """The same, to look at."""
    with reassignment_client(lab.bootstrap_servers, OPEN) as connection:
        yield connection


def fill(lab: StandingCluster) -> None:
    """Numbered records in every partition, and a group that has committed."""
    producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "linger.ms": 20})
    for number in range(RECORDS):
        producer.produce("orders", f"{number:010}".encode() * (PAYLOAD // 10), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    reader = Consumer({"bootstrap.servers": lab.bootstrap_servers, "group.id": "billing"})
    at = [TopicPartition("orders", 0, 5)]
    answered(lambda: reader.commit(offsets=at, asynchronous=False), "a commit")
    reader.close()


def stored(lab: StandingCluster) -> list[int]:
    """The number of every record that a reader finds, in order."""
    reader = Consumer({"bootstrap.servers": lab.bootstrap_servers, "group.id": "nobody"})
    reader.assign([TopicPartition("orders", partition, 0) for partition in range(PARTITIONS)])
    found: list[int] = []

    def all_there() -> bool:
        values = [message.value() for message in reader.consume(500, timeout=1)]
        found.extend(int(value[:10]) for value in values if value)
        return len(found) >= RECORDS

    assert eventually(all_there)
    reader.close()
    return sorted(found)


@pytest.mark.long
def test_killed_reassignment_resumes(
    lab: StandingCluster, cluster: ReassignmentClient, tmp_path: Path
) -> None:
    """From one replica to three, Kafka's own topic included; no throttle and no journal is left."""
    fill(lab)
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    at = ["--bootstrap-servers", lab.bootstrap_servers]

    def call(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [*KAPUT, *arguments, *at],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env=env,
        )
        assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stderr

    three = ["reassign", "--replication-factor", "3", "--all-topics"]
    assert "no terminal" in call(*three, status=2) and not cluster.ongoing()
    plan = json.loads(call(*three, "--dry-run", "--json"))
    assert plan["copies"] == 2 * (PARTITIONS + 3) and plan["applied"] is False  # 3: __consumer_offsets
    first = subprocess.Popen([*KAPUT, *three, "--yes", "--throttle", SLOW, *at], env=env)
    assert eventually(lambda: bool(cluster.ongoing()))
    first.kill()
    first.wait(PATIENCE_S)
    throttled = cluster.configs("topic", ["orders"], REPLICAS)["orders"]
    assert throttled[REPLICAS[1]] is not None
    assert cluster.configs("broker", ["1"], RATES)["1"] == dict.fromkeys(RATES, "2000000")
    named = f"kaput reassign {' '.join(at)}"  # as the cluster was named
    assert f"{named} --resume continues" in call(*three, "--yes", status=2)
    said = json.loads(call("reassign", "--resume", "--yes", "--throttle", FAST, "--json"))
    assert said["applied"] is True
    assert not list(tmp_path.glob(f"kaput/reassignments/{plan['cluster_id']}.json"))

    def whole() -> bool:
        states = cluster.view().partitions
        led = {state.leader for (topic, _), state in states.items() if topic == "orders"}
        return led == {1, 2, 3} and all(
            set(state.replicas) == set(state.isr) == {1, 2, 3} for state in states.values()
        )

    # Any broker may be asked, and some learn of it later than others.
    assert eventually(whole), cluster.view()
    assert set(cluster.configs("topic", ["orders"], REPLICAS)["orders"].values()) == {None}
    for broker in "123":
        assert set(cluster.configs("broker", [broker], RATES)[broker].values()) == {None}
    assert stored(lab) == list(range(RECORDS))
    shown = call("doctor", "--fix", "--dry-run", "--fail-on", "never")
    assert "topic orders: min.insync.replicas=2" in shown and "after the fixes" not in shown
    assert cluster.configs("topic", ["orders"], [MIN_ISR])["orders"] == {MIN_ISR: None}
    fixed = json.loads(call("doctor", "--fix", "--yes", "--json", "--fail-on", "never"))
    assert "min.insync.replicas=2 for orders" in fixed["fixed"]
    assert not {each["id"] for each in fixed["findings"]} & {"KP001", "KP002"}

    def mended() -> bool:
        return cluster.configs("topic", ["orders"], [MIN_ISR])["orders"] == {MIN_ISR: "2"}

    assert eventually(mended)
    assert f"to undo it: {named} --rollback " in call("reassign", "--rollback", said["rollback"], "--yes")

    def back() -> bool:
        states = cluster.view().partitions.items()
        return all(
            len(state.replicas) == 1 and (p[0] != "orders" or state.leader == 1) for p, state in states
        )

    assert eventually(back), cluster.view()
    assert stored(lab) == list(range(RECORDS))


@pytest.mark.long
def test_doctor_fix_finishes_an_interrupted_reassignment(
    lab: StandingCluster, cluster: ReassignmentClient, tmp_path: Path
) -> None:
    """The doctor shows what was interrupted and the throttles that stay on; then nothing of it is left."""
    fill(lab)
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    at = ["--bootstrap-servers", lab.bootstrap_servers]
    three = ["reassign", "--replication-factor", "3", "--topic", "orders", "--yes", "--throttle", "4MB"]
    first = subprocess.Popen([*KAPUT, *three, *at], env=env)
    assert eventually(lambda: bool(cluster.ongoing()))
    first.kill()
    first.wait(PATIENCE_S)
    assert eventually(lambda: not cluster.ongoing())  # the brokers go on by themselves
    found = _said("doctor", "--fail-on", "never", at=lab, env=env)["findings"]
    shown = {(each["id"], each["resource"]) for each in found}
    assert {("KP022", "every broker"), ("KP022", "topic orders"), ("KP023", "reassignment")} <= shown
    said = _said("doctor", "--fix", "--yes", "--fail-on", "never", at=lab, env=env)
    assert "the interrupted reassignment of 4 partitions" in said["fixed"][0]
    assert "min.insync.replicas=2 for orders" in said["fixed"]
    assert not {each["id"] for each in said["findings"]} & {"KP001", "KP003", "KP022", "KP023"}
    assert set(cluster.configs("topic", ["orders"], REPLICAS)["orders"].values()) == {None}
    assert stored(lab) == list(range(RECORDS))
    # Of another program's, which no journal here knows.
    cluster.configure("broker", {"2": {RATES[0]: "1000"}})
    cluster.configure("topic", {"orders": {REPLICAS[1]: "0:1"}})

    def left_behind() -> set[str]:
        known = _said("doctor", "--fail-on", "never", at=lab, env=env)["findings"]
        return {each["resource"] for each in known if each["id"] == "KP022"}

    assert eventually(lambda: left_behind() == {"broker 2", "topic orders"})
    said = _said("doctor", "--fix", "--yes", "--fail-on", "never", at=lab, env=env)
    assert "remove leftover replication throttles" in said["fixed"]
    assert eventually(lambda: left_behind() == set())


@pytest.mark.long
def test_rack_balance_and_broker_drain_copy_as_little_as_possible(
    racks: StandingCluster, tmp_path: Path
) -> None:
    """Each by as few copies as it takes, which the doctor and the cluster bear out; nothing is lost."""
    fill(racks)
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}

    def ids() -> set[str]:
        said = _said("doctor", "--fail-on", "never", at=racks, env=env)
        return {found["id"] for found in said["findings"] if "orders" in json.dumps(found)}

    def copies(*goal: str) -> int:
        said = _said("reassign", "--topic", "orders", *goal, "--yes", "--throttle", FAST, at=racks, env=env)
        assert said["applied"] is True
        return int(said["copies"])

    with reassignment_client(racks.bootstrap_servers, OPEN) as cluster:

        def replicas() -> list[set[int]]:
            states = cluster.view().partitions
            return [set(states["orders", partition].replicas) for partition in range(PARTITIONS)]

        assert "KP006" in ids()  # all replicas in one rack
        assert copies("--spread-racks") == PARTITIONS
        assert eventually(lambda: all(len({b % 2 for b in held}) == 2 for held in replicas())), replicas()
        assert "KP006" not in ids()
        there = sum(4 in held for held in replicas())
        assert copies("--away-from", "4") == there > 0
        assert eventually(lambda: not any(4 in held for held in replicas())), replicas()
        assert copies("--balance") >= 1

        def even() -> bool:
            # Kafka's own topic counts, too, wherever it happens to be.
            every = cluster.view().partitions.values()
            often = Counter(broker for state in every for broker in state.replicas)
            return max(often.values()) - min(often[broker] for broker in (1, 2, 3, 4)) <= 1

        assert eventually(even), replicas()
        assert all(len({broker % 2 for broker in held}) == 2 for held in replicas())
    assert stored(racks) == list(range(RECORDS))


def _said(*arguments: str, at: StandingCluster, env: dict[str, str]) -> dict[str, Any]:
    """What kaput prints of that cluster, as JSON."""
    command = [*KAPUT, *arguments, "--json", "--bootstrap-servers", at.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=env)
    assert done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr)
    return dict(json.loads(done.stdout))
