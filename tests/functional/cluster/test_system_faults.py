"""Faults that take something from a real broker's process: their proofs, and what clients see of them."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from fakes.steps import scene_of
from kaput.cluster import faketime
from kaput.cluster.admin import Admin, requests
from kaput.cluster.distribution import Distribution
from kaput.cluster.network.loopback import Loopback
from kaput.cluster.own_cluster import OwnCluster
from kaput.cluster.wire import ask
from kaput.errors import LabError
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Fault
from kaput.java import Java
from kaput.processes.ownership import Owner
from kaput.scenario.fault_kinds import KINDS, faults_on
from kaput.scenario.model import Cluster
from system_packages import library
from waiting import PATIENCE_S


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
