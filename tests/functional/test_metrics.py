"""`kaput metrics` on real brokers: it starts with a dead seed, and what happens shows within seconds.

One cluster and one exporter for all tests here; Kafka gives brokers up sooner than by default.
"""

from __future__ import annotations

import http.client
import json
import math
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from driving import KAPUT
from kaput.core import TopicPartition as Place
from kaput.monitor.grafana import dashboard
from kaput.monitor.sources.cluster_state import ClusterState
from kaput.operate.doctor.snapshot import read_snapshot
from kaput.operate.standing_cluster import StandingCluster
from system_packages import Missing, program
from waiting import PATIENCE_S, answered, eventually, wait_for

# What the busiest machine may take on top of the bound that is wanted.
SLACK_S = 60.0
FENCED_S = 4.0
CONFIG = {"broker.session.timeout.ms": int(FENCED_S * 1000), "broker.heartbeat.interval.ms": 500}
# Longer than anybody waits: it is interrupted.
LONG_RUN = """
version: 1
title: a run that is measured
cluster: {brokers: 1}
topics: [{name: orders, partitions: 1, replication-factor: 1}]
workload:
  producers: [{topic: orders, acks: all, messages: 200000, rate: 200}]
expect: {lost: 0}
"""
Values = dict[tuple[str, ...], float]


class Exporter:
    """`kaput metrics` on a port of its own."""

    def __init__(self, port: int) -> None:
        self.port = port

    def text(self) -> str:
        """A scrape, which is answered within a second whatever the brokers do."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            assert answer.status == 200
            return answer.read().decode()
        finally:
            connection.close()

    def values(self) -> Values:
        """By name, without `kaput_`, and labels in the order of their names."""
        return {
            (s.name.removeprefix("kaput_"), *(s.labels[key] for key in sorted(s.labels))): s.value
            for family in text_string_to_metric_families(self.text())
            for s in family.samples
        }


@pytest.fixture(scope="module")
def lab() -> Iterator[StandingCluster]:
    """Three brokers. `single` is on broker 2 alone, and `moved` on brokers 1 and 2."""
    with StandingCluster(brokers=3, config=CONFIG) as started:
        started.create_topic("orders", 3, 3, {"min.insync.replicas": 2})
        started.create_topic("single", assignment=[[2]])
        started.create_topic("moved", assignment=[[1, 2]])
        yield started


@pytest.fixture(scope="module")
def exporter(lab: StandingCluster) -> Iterator[Exporter]:
    """The first seed is dead."""
    servers = f"127.0.0.1:1,{lab.bootstrap_servers}"
    command = [*KAPUT, "metrics", "--bootstrap-servers", servers, "--listen", "127.0.0.1:0", "--every", "1s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = Exporter(int(process.stdout.readline().strip().removesuffix("/metrics").rpartition(":")[2]))
        try:
            answers = [("broker_answers", broker) for broker in "123"]
            wait_for(lambda: all(found.values().get(each) == 1 for each in answers), "a whole poll")
            yield found
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def test_exporter_starts_with_a_dead_seed(exporter: Exporter) -> None:
    found = exporter.values()
    assert {key: found[key] for key in found if key[0] in ("broker_up", "broker_answers")} == {
        (name, broker): 1.0 for name in ("broker_up", "broker_answers") for broker in "123"
    }
    assert found["cluster_reachable",] == found["active_controllers",] == 1
    assert found["offline_partitions",] == found["under_min_isr_partitions",] == 0
    assert (found["spare_replicas", "orders"], found["spare_replicas", "single"]) == (1, 0)
    assert 0 < found["log_dir_used_ratio", "1"] <= 1 and found["log_dirs_offline", "1"] == 0
    assert {key[1] for key in found if key[0] == "quorum_follower_lag_records"} == {"1", "2", "3"}
    wait_for(
        lambda: exporter.values()["poll_requests",] <= 4 * 3 + 1, "a poll without what is asked less often"
    )


def written(lab: StandingCluster, topic: str, partition: int, count: int, age_s: float) -> None:
    """Writes records that are so old."""
    producer = Producer(lab.client_settings())
    for _ in range(count):
        at_ms = int((time.time() - age_s) * 1000)
        producer.produce(topic, b"value", partition=partition, timestamp=at_ms)
    assert producer.flush(PATIENCE_S) == 0


def committed(lab: StandingCluster, group: str, topic: str, partition: int, offset: int) -> None:
    consumer = Consumer({**lab.client_settings(), "group.id": group, "enable.auto.commit": False})
    try:
        place = TopicPartition(topic, partition, offset)
        answered(lambda: consumer.commit(offsets=[place], asynchronous=False), "the commit")
    finally:
        consumer.close()


def test_lag_of_a_stalled_group_in_records_and_seconds(lab: StandingCluster, exporter: Exporter) -> None:
    """In records, and the age of the first one that it has not committed."""
    written(lab, "orders", 0, 5, age_s=1000)
    dated_s = time.time() - 100
    written(lab, "orders", 0, 5, age_s=100)
    committed(lab, "still", "orders", 0, 5)
    committed(lab, "well", "orders", 0, 10)
    records, seconds = ("consumer_lag_records",), ("consumer_lag_seconds",)
    still, well = ("still", "0", "orders"), ("well", "0", "orders")
    wait_for(lambda: exporter.values().get(records + still) == 5, "the lag of a group")
    wait_for(lambda: exporter.values().get(records + well) == 0, "that of another")
    first = exporter.values()
    assert 100 <= first[seconds + still] <= time.time() - dated_s
    assert first[records + well] == first[seconds + well] == 0
    wait_for(lambda: exporter.values()[seconds + still] > first[seconds + still] + 1, "it grows older")
    assert exporter.values()[seconds + still] <= time.time() - dated_s
    committed(lab, "still", "orders", 0, 10)
    wait_for(lambda: exporter.values()[seconds + still] == 0, "the group has caught up", 5 + SLACK_S)


def test_markers_deleted_records_and_positions_of_no_topic(lab: StandingCluster, exporter: Exporter) -> None:
    """A group that has read all of a transactional topic has no lag; and what it never gets is counted."""
    lab.create_topic("paid", 1, 3)
    producer = Producer({**lab.client_settings(), "transactional.id": "payments"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce("paid", b"value")
    producer.commit_transaction(PATIENCE_S)
    committed(lab, "reader", "paid", 0, 5)
    committed(lab, "slow", "paid", 0, 1)
    reader, slow = (("reader", "0", "paid"), ("slow", "0", "paid"))
    wait_for(lambda: exporter.values().get(("consumer_lag_records", *slow)) == 5, "a lag with a marker in it")
    wait_for(lambda: exporter.values().get(("consumer_lag_records", *reader)) == 0, "a marker is no lag")
    admin = AdminClient(lab.client_settings())
    (deleted,) = admin.delete_records([TopicPartition("paid", 0, 4)]).values()
    deleted.result(PATIENCE_S)
    wait_for(lambda: exporter.values()["group_deleted_unread_records", *slow] == 3, "what retention took")
    assert exporter.values()["group_stale_position", *reader] == 0
    committed(lab, "reader", "paid", 0, 100)
    wait_for(lambda: exporter.values()["group_stale_position", *reader] == 1, "a position beyond the end")


def test_doctor_knows_markers_and_open_transactions(lab: StandingCluster) -> None:
    """Of a partition each transaction that is open, with the id that its coordinator knows."""
    lab.create_topic("billed", 1, 3)
    producer = Producer({**lab.client_settings(), "transactional.id": "invoices"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("billed", b"value")
    producer.commit_transaction(PATIENCE_S)
    settings = {"group.id": "accountant", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**lab.client_settings(), **settings})
    consumer.subscribe(["billed"])
    wait_for(lambda: (found := consumer.poll(1)) is not None and not found.error(), "a message")
    place = TopicPartition("billed", 0, 1)
    answered(lambda: consumer.commit(offsets=[place], asynchronous=False), "the commit")
    consumer.close()

    def lag() -> int:
        groups = {group.id: group for group in read_snapshot(lab.bootstrap_servers).groups}
        return sum(commit.lag for commit in groups["accountant"].commits)

    wait_for(lambda: lag() == 0, "a marker is no lag")
    producer.begin_transaction()
    producer.produce("billed", b"value")
    assert producer.flush(PATIENCE_S) == 0
    (held,) = [t for t in read_snapshot(lab.bootstrap_servers).transactions if t.topic == "billed"]
    assert (held.start, held.held_back, held.transactional_id) == (2, 1, "invoices")
    assert lag() == 2
    second = Producer({**lab.client_settings(), "transactional.id": "refunds"})
    second.init_transactions(PATIENCE_S)
    second.begin_transaction()
    second.produce("billed", b"value")
    assert second.flush(PATIENCE_S) == 0
    both = [t.transactional_id for t in read_snapshot(lab.bootstrap_servers).transactions]
    assert both == ["invoices", "refunds"]  # the end of the first one does not help readers
    producer.abort_transaction(PATIENCE_S)
    second.abort_transaction(PATIENCE_S)
    wait_for(lambda: lag() == 0, "no reader gets aborted records")
    wait_for(lambda: not read_snapshot(lab.bootstrap_servers).transactions, "it is over")


@contextmanager
def killed(lab: StandingCluster, broker: int) -> Iterator[float]:
    """Kills a broker for as long as the block lasts; when that was."""
    with lab.fault("kill", f"broker {broker}"):
        yield time.monotonic()


def test_dead_broker_shows_in_metrics_and_scrapes_still_succeed(
    lab: StandingCluster, exporter: Exporter
) -> None:
    """At once that it does not answer; partitions as soon as Kafka gives it up. No lag is a false 0."""
    written(lab, "single", 0, 3, age_s=50)
    committed(lab, "lonely", "single", 0, 3)
    lag = ("consumer_lag_records", "lonely", "0", "single")
    wait_for(lambda: exporter.values().get(lag) == 0, "the lag of a group")
    slowest_s = 0.0

    def lag_is_unknown() -> bool:
        """Not a number; or absent, while the group's coordinator does not say what it had committed."""
        return math.isnan(found().get(lag, math.nan))

    def found() -> Values:
        nonlocal slowest_s
        began = time.monotonic()
        values = exporter.values()
        slowest_s = max(slowest_s, time.monotonic() - began)
        return values

    with killed(lab, 2):
        wait_for(lambda: found()["broker_answers", "2"] == 0, "broker 2 is silent", 5 + SLACK_S)
        assert eventually(lag_is_unknown, 5 + SLACK_S), "its lag is unknown, and not 0"
        wait_for(lambda: found()["broker_up", "2"] == 0, "broker 2 is down", FENCED_S + 5 + SLACK_S)
        wait_for(lambda: found()["offline_partitions",] == 1, "single is offline", 5 + SLACK_S)
        under = [("under_replicated_partitions", broker) for broker in ("-1", "1", "3")]
        wait_for(
            lambda: found()[under[0]] == 1 and sum(found()[key] for key in under) >= 5,
            "partitions lack broker 2",
            5 + SLACK_S,
        )
        assert found()["active_controllers",] in (0, 1) and found()["cluster_reachable",] == 1
        assert lag_is_unknown() and math.isnan(found()["log_dirs_offline", "2"])
        assert found()["last_poll_age_seconds",] < 5 + SLACK_S
    wait_for(lambda: found()["broker_up", "2"] == 1, "broker 2 is back")
    wait_for(lambda: found()["offline_partitions",] == 0, "single is back")
    wait_for(lambda: found().get(lag) == 0, "the lag is known")
    assert found()["unclean_elections_total",] == 0
    assert slowest_s < 1 + SLACK_S / 2


@pytest.mark.long
def test_exporter_starts_while_a_broker_is_down(lab: StandingCluster) -> None:
    """It is known by its replicas; a poll has its time limits."""
    with killed(lab, 3):
        state = ClusterState(lab.bootstrap_servers)
        try:
            began = time.monotonic()
            found = state.poll()
            assert time.monotonic() - began < 8 + SLACK_S
        finally:
            state.close()
    assert {s.labels["broker"] for s in found if s.name == "kaput_broker_up"} == {"1", "2", "3"}


def test_paused_broker_delays_a_poll_by_its_timeout_at_most(lab: StandingCluster, exporter: Exporter) -> None:
    """They take connections and answer nothing."""
    with lab.fault("pause", "broker 1"):
        wait_for(lambda: exporter.values()["broker_answers", "1"] == 0, "broker 1 is silent", 8 + SLACK_S)
        assert exporter.values()["poll_duration_seconds",] < 8 + SLACK_S
    wait_for(lambda: exporter.values()["broker_answers", "1"] == 1, "broker 1 answers")


def test_lag_follows_reassigned_partitions(lab: StandingCluster, exporter: Exporter) -> None:
    """No poll is of replicas that were."""
    written(lab, "moved", 0, 4, age_s=20)
    committed(lab, "mover", "moved", 0, 1)
    lag = ("consumer_lag_records", "mover", "0", "moved")
    wait_for(lambda: exporter.values().get(lag) == 3, "the lag before")
    lab._admin.reassign({Place("moved", 0): [3, 2]})
    wait_for(lambda: lab.partitions("moved")[0].leader == 3, "the partition has moved")
    wait_for(
        lambda: exporter.values()[lag] == 3 and exporter.values()["reassigning_partitions",] == 0,
        "the lag after",
        5 + SLACK_S,
    )
    assert exporter.values()["under_replicated_partitions", "3"] == 0


def _program(name: str) -> str:
    try:
        return str(program(name, "prometheus"))
    except Missing as why:
        pytest.skip(str(why))


def test_promtool_accepts_the_metrics(exporter: Exporter) -> None:
    done = subprocess.run(
        [_program("promtool"), "check", "metrics"],
        input=exporter.text(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def prometheus(exporter: Exporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Prometheus that scrapes the exporter each second."""
    folder = tmp_path_factory.mktemp("prometheus")
    config = folder / "prometheus.yml"
    target = f"127.0.0.1:{exporter.port}"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [{"job_name": "kaput", "static_configs": [{"targets": [target]}]}],
            }
        )
    )
    subprocess.run([_program("promtool"), "check", "config", str(config)], check=True, capture_output=True)
    port = _free_port()
    command = [
        _program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _queried(prometheus: str, expression: str) -> dict[str, float]:
    """The answer by broker; empty while there is none."""
    try:
        url = f"{prometheus}/api/v1/query?query={quote(expression)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = json.load(answer)["data"]["result"]
    except OSError:
        return {}
    return {each["metric"].get("broker", ""): float(each["value"][1]) for each in found}


def test_prometheus_scrapes_it(exporter: Exporter, prometheus: str) -> None:
    """Every signal that it serves arrives, by its own name."""
    wait_for(lambda: _queried(prometheus, 'up{job="kaput"}') == {"": 1.0}, "a scrape")
    wait_for(
        lambda: _queried(prometheus, "kaput_broker_up") == {"1": 1.0, "2": 1.0, "3": 1.0}, "brokers are up"
    )
    assert _queried(prometheus, "sum(kaput_offline_partitions)") == {"": 0.0}
    families = {family.name for family in text_string_to_metric_families(exporter.text())}
    known = _queried(prometheus, 'count(count by (__name__) ({__name__=~"kaput_.+"}))')
    assert known == {"": float(len(families))}


def test_prometheus_answers_every_query_of_the_dashboard(exporter: Exporter, prometheus: str) -> None:
    """It is all PromQL; and of what this exporter serves, there are series."""
    wait_for(lambda: _queried(prometheus, "kaput_broker_up") != {}, "a scrape")
    served = {family.name for family in text_string_to_metric_families(exporter.text())}
    expected: list[str] = []
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"].replace("$__rate_interval", "5s")
            with urllib.request.urlopen(f"{prometheus}/api/v1/query?query={quote(expression)}") as answer:
                assert json.load(answer)["status"] == "success"
            names = {re.sub("_(total|bucket)$", "", name) for name in re.findall(r"kaput_\w+", expression)}
            if names <= served:  # a rate exists from the second scrape on
                expected.append(expression)
    assert expected
    wait_for(
        lambda: [each for each in expected if not _queried(prometheus, each)] == [],
        "an answer to each query of what is served",
    )


@pytest.mark.long  # its siblings: test_cluster_lifecycle.py, and unit/dashboard/test_sidecar.py
def test_metrics_are_served_during_a_run(tmp_path: Path) -> None:
    """And nothing of it afterwards. The run lasts until it is interrupted, once its numbers were seen."""
    scenario = tmp_path / "long.yaml"
    scenario.write_text(LONG_RUN)
    port = _free_port()
    command = [*KAPUT, "run", str(scenario), "--runs", str(tmp_path / "runs"), "--no-page"]
    command += ["--metrics", f"127.0.0.1:{port}"]
    found = Exporter(port)
    seen: dict[str, float] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: bool(seen.update(_measured(found, process)) or seen), "an acknowledgement")
        finally:
            process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert 0 < seen["messages_acked_total"] <= seen["messages_sent_total"]
    assert seen["produce_latency_seconds_count"] == seen["messages_acked_total"]
    with pytest.raises(ConnectionRefusedError):
        found.text()


def _measured(found: Exporter, process: subprocess.Popen[str]) -> dict[str, float]:
    """What a scrape says, by name, once something was acknowledged. Until then nothing."""
    assert process.poll() is None, "the run ended before its numbers were seen"
    now: dict[str, float] = defaultdict(float)
    with suppress(OSError, http.client.HTTPException):
        # Of a broker that is not known yet there are series of their own.
        for key, value in found.values().items():
            now[key[0]] += value
    return now if now["messages_acked_total"] else {}
