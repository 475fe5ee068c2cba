"""Faults that take something from a real broker's process: their proofs, and what clients see of them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from fakes.steps import scene_of
from kaput.cluster import faketime
from kaput.cluster.admin import Admin, requests
from kaput.cluster.distribution import Distribution
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.node import Node
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.segments import directory, log_end
from kaput.cluster.wire import ask
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Fault
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.fault_kinds import KINDS, faults_on
from kaput.scenario.model import Cluster, Topic
from system_packages import library
from waiting import PATIENCE_S, eventually


def fault(name: str, cluster: OwnCluster, admin: Admin, **options: float) -> Fault[Any]:
    """On the nodes of this cluster."""
    scene = scene_of(name, options, nodes=cluster.nodes, network=Loopback(), admin=admin)
    return fault_class(name)(scene)


def slowest_answer_s(cluster: OwnCluster, broker: int) -> float:
    """Of one broker's answers in half a second, which are five periods of the pressure."""
    took: list[float] = []
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        began = time.monotonic()
        ask(cluster.broker_endpoints[broker], requests.metadata(), PATIENCE_S)
        took.append(time.monotonic() - began)
    return max(took)


def test_cpu_pressure_delays_responses_until_healed(cluster: OwnCluster, admin: Admin) -> None:
    """It runs for its share of the time, is proven to, and runs freely when it is healed."""
    node, pressure = cluster.nodes[1], fault("cpu-pressure", cluster, admin, percent=10.0)
    effect = pressure.inject([node])
    try:
        assert effect.confirmed, effect.proof
        # It runs for a tenth of each 100 ms: an answer waits for the next period.
        assert slowest_answer_s(cluster, 1) > 0.06
    finally:
        healed, after = pressure.heal([node], effect)
    assert after.confirmed and healed is not None, after.proof
    assert after.proof.startswith(f"broker 1 (pid {node.pid}): 10% of the CPUs' time; at first ran ")
    assert after.proof.endswith("running freely again")
    used = node.cpu_seconds()
    assert slowest_answer_s(cluster, 1) < PATIENCE_S and not node.is_stopped()
    assert node.cpu_seconds() >= used
    cluster.wait_ready(PATIENCE_S)


def identity(node: Node) -> dict[str, str]:
    """What is written on its disk of who it is."""
    lines = (node.data / "meta.properties").read_text().splitlines()
    return dict(line.split("=") for line in lines if "=" in line)


def test_broker_that_lost_its_disk_is_the_same_broker_and_copies_its_partitions(
    cluster: OwnCluster, admin: Admin
) -> None:
    """An empty disk has another directory id; what it had is there again once it is in the ISR."""
    admin.create_topics([Topic(name="emptied", assignment=[[3, 1]])])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(500):
        producer.produce("emptied", b"x")
    assert producer.flush(PATIENCE_S) == 0
    node, lost = cluster.nodes[3], fault("disk-loss", cluster, admin)
    before, there = identity(node), directory(node.data, "emptied", 0)
    assert log_end(there) == 500
    effect = lost.inject([node])
    try:
        assert effect.confirmed and not node.files() and node.data.is_dir(), effect.proof
    finally:
        healed, after = lost.heal([node], effect)
    assert healed is not None and after.confirmed, after.proof
    assert re.search(
        r"broker 3: \d+ files deleted .* broker 3, empty, answered within [\d,]+ ms", after.proof
    )
    now = identity(node)
    assert now.keys() == before.keys() and {key for key in now if now[key] != before[key]} == {"directory.id"}
    in_sync = lambda: set(admin.partitions(["emptied"])[TopicPartition("emptied", 0)].isr) == {1, 3}  # noqa: E731
    assert eventually(in_sync) and log_end(there) == 500
    cluster.wait_ready(PATIENCE_S)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [n for n in faults_on("nodes") if KINDS[n].needs is None and n != "command" and not KINDS[n].by_request],
)
def test_every_fault_that_needs_nothing_is_proven_on_a_real_broker(
    name: str, cluster: OwnCluster, admin: Admin
) -> None:
    """From its injection to its heal."""
    made, nodes = fault(name, cluster, admin), [cluster.nodes[1]]
    effect = made.inject(nodes)
    assert effect.confirmed and effect.effective_ns is not None, effect.proof
    time.sleep(2)
    healed, after = made.heal(nodes, effect)
    assert healed is not None and after.confirmed, after.proof
    cluster.wait_ready(PATIENCE_S)


@pytest.mark.long
def test_clock_skew_shifts_the_timestamps_in_the_broker_log(
    tmp_path: Path, distribution: Distribution, java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ahead and behind, proven by lines that it logs, and right again when it is healed."""
    monkeypatch.setenv(faketime.VARIABLE, str(library("libfaketime.so.1", "libfaketime")))
    spec = Cluster(brokers=1, faketime=True)
    with (
        Owner() as owner,
        OwnCluster(owner, spec, distribution, java, tmp_path) as cluster,
        Admin(cluster) as admin,
    ):
        node = cluster.nodes[1]
        for offset_ms, text in ((300_000, "300.0 s ahead"), (-3_600_000, "3600.0 s behind")):
            skew = fault("clock-skew", cluster, admin, offset=offset_ms)
            effect = skew.inject([node])
            assert effect.confirmed, effect.proof
            healed, after = skew.heal([node], effect)
            assert after.confirmed and healed is not None, after.proof
            lag = float(after.proof.split("dated ")[2].split()[0])
            # A line is dated when it is read: on a busy machine seconds later.
            assert abs(lag - abs(offset_ms) / 1000) < 30 and text.split()[-1] in after.proof, after.proof
        assert node.running and not node.deaths


def test_clock_skew_without_libfaketime_is_not_confirmed(cluster: OwnCluster, admin: Admin) -> None:
    """Brokers that run without libfaketime log the true date, whatever is written for it."""
    node, skew = cluster.nodes[2], fault("clock-skew", cluster, admin, offset=300_000)
    effect = skew.inject([node])
    assert not effect.confirmed and effect.effective_ns is None, effect.proof
    _, after = skew.heal([node], effect)
    # A line is dated when it is read: on a busy machine seconds later.
    seen = [float(text) for text in re.findall(r"dated (\d+\.\d) s", after.proof)]
    assert not after.confirmed and len(seen) == 2 and max(seen) < 30, after.proof


def test_missing_libfaketime_error_has_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a path that is wrong is named."""
    monkeypatch.setenv(faketime.VARIABLE, "/nowhere/lib")
    with pytest.raises(LabError, match="KAPUT_FAKETIME=/nowhere/lib: there is no such file"):
        faketime.library()
    monkeypatch.delenv(faketime.VARIABLE)
    monkeypatch.setattr(faketime, "_PLACES", ("/nowhere",))
    with pytest.raises(LabError, match="as root: apt-get install libfaketime"):
        faketime.library()
