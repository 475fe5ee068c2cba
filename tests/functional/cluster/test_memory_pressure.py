"""A real broker whose memory is limited by its cgroup: the proof, what it holds, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from driving import KAPUT, mentions
from fakes.steps import scene_of
from kaput.cluster.admin import Admin
from kaput.cluster.distribution import Distribution
from kaput.cluster.memory_group import MemoryGroup
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import LabError
from kaput.faults.memory_pressure import MemoryPressure
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.model import Cluster
from waiting import PATIENCE_S, eventually, wait_for

_MIB = 1 << 20


@pytest.fixture(scope="module")
def groups() -> Path:
    """Where groups are made; skipped where there can be none."""
    with Owner() as owner:
        try:
            return MemoryGroup.create(owner).path.parent
        except LabError as error:
            pytest.skip(str(error))


@pytest.fixture
def cluster(groups: Path, tmp_path: Path, distribution: Distribution, java: Java) -> Iterator[OwnCluster]:
    """One broker in a memory group of its own."""
    spec = Cluster(brokers=1, memory_groups=True, config={"auto.create.topics.enable": True})
    with Owner() as owner, OwnCluster(owner, spec, distribution, java, tmp_path) as started:
        assert started.nodes[1].memory is not None and started.nodes[1].memory.path.parent == groups
        yield started


def send(cluster: OwnCluster, mib: int) -> None:
    """So much to a topic."""
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for _ in range(16 * mib):
        sent = os.urandom(_MIB // 16)
        producer.produce("orders", sent, on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0 and errors == [None] * 16 * mib


def test_memory_pressure_shrinks_the_page_cache_not_the_heap(cluster: OwnCluster, admin: Admin) -> None:
    """The broker goes on with less, and has both again when it is healed."""
    node = cluster.nodes[1]
    group = node.memory
    assert group is not None
    send(cluster, 64)
    before = group.usage()
    options = {"page_cache_mb": 16}
    scene = scene_of("memory-pressure", options, nodes=cluster.nodes, network=Loopback(), admin=admin)
    pressure = MemoryPressure(scene)
    effect = pressure.inject([node])
    try:
        assert effect.confirmed, effect.proof
        assert group.usage() < before - 24 * _MIB
        send(cluster, 64)
        assert group.times_reached() > 0 and group.usage() <= group.held() + 24 * _MIB
    finally:
        healed, after = pressure.heal([node], effect)
    assert after.confirmed and healed is not None, after.proof
    assert after.proof.endswith("the limit is gone") and " times at the limit" in after.proof
    send(cluster, 64)
    assert group.usage() > group.held() + 32 * _MIB
    assert node.running and cluster.troubles() == []


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGKILL])
def test_no_cgroup_is_left_after_interrupt_or_kill(
    groups: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """Neither by a run that is interrupted nor by one that is killed."""
    before = set(groups.glob("kaput-*"))
    in_groups = ["--set", "cluster.memory-groups=true"]
    run = [*KAPUT, "run", "member-kill", *in_groups, "--runs", str(tmp_path / "runs")]
    process = subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def own() -> list[Path]:
        return [path for path in set(groups.glob("kaput-*")) - before if _is_of(path, tmp_path)]

    wait_for(lambda: len(own()) == 1, "a group for its broker")
    made = own()
    process.send_signal(number)
    process.wait(PATIENCE_S)
    assert eventually(lambda: not mentions(tmp_path))
    assert eventually(lambda: not any(path.exists() for path in made))


def _is_of(group: Path, runs: Path) -> bool:
    """Whether a process of that group has to do with these runs."""
    try:
        pids = (group / "cgroup.procs").read_text().split()
        return any(str(runs) in Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)
    except OSError:
        return False
