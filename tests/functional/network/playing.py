"""Plays faults on one real cluster in network namespaces and prints what they proved, as JSON.

Started by the tests below `unshare`; `python playing.py FOLDER`. The expectations are in
test_network_faults.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kaput.cluster.admin import Admin
from kaput.cluster.distribution import resolve
from kaput.cluster.network.reexec import MARK, enter
from kaput.cluster.own_cluster import OwnCluster
from kaput.errors import BrokerError, LabError
from kaput.faults.catalogue import fault_class
from kaput.faults.fault import Effect, Fault, Scene
from kaput.java import find_java
from kaput.processes.ownership import Owner
from kaput.processes.records import own_marker
from kaput.scenario.model import Cluster
from kaput.scenario.steps import FaultStep
from kaput.scenario.timeline import AfterStart, Step

TARGET = 1
_PATIENCE_S = 300.0


class Lame:
    """A node's packet filter, of which the second table that is put has no rules."""

    def __init__(self, real: Any) -> None:
        self._real, self.puts = real, 0

    def put(self, table: str, chains: Any) -> None:
        """Does what is asked, but not the second time."""
        self.puts += 1
        self._real.put(table, [] if self.puts == 2 else chains)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class LameNetwork:
    """The cluster's own network, but for broker 1's packet filter."""

    def __init__(self, real: Any) -> None:
        self._real, self._lame = real, Lame(real.filter(TARGET))

    def filter(self, node: int) -> Any:
        """The lame one for broker 1."""
        return self._lame if node == TARGET else self._real.filter(node)

    @property
    def puts(self) -> int:
        """How many tables were put, the one without rules among them."""
        return self._lame.puts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Stage:
    """One cluster, and what was seen on it so far."""

    def __init__(self, cluster: OwnCluster, admin: Admin) -> None:
        self.cluster, self.admin = cluster, admin
        self.network: Any = cluster.network
        self.seen: dict[str, Any] = {}
        self._steps = 0

    def fault(self, **keys: Any) -> Fault[Any]:
        """A fault, ready to be injected, from the keys of a scenario's step."""
        step = FaultStep.model_validate({"at": "0s", **keys})
        self._steps += 1
        name = f"{self._steps}-{step.fault}"
        scene = Scene(
            step=Step(name, step.fault, step.target, AfterStart(0), None, 1, step.options),
            nodes=self.cluster.nodes,
            network=self.network,
            admin=self.admin,
        )
        return fault_class(step.fault)(scene)

    def play(self, case: str, meanwhile: Callable[[], None] = lambda: None, **keys: Any) -> None:
        """Injects into broker 1, does something, heals; notes what was proven before and after."""
        nodes = [self.cluster.nodes[TARGET]]
        fault = self.fault(**keys)
        effect = fault.inject(nodes)
        meanwhile()
        _, healed = fault.heal(nodes, effect)
        self.seen[case] = {"injected": _plain(effect), "healed": _plain(healed), "left": self.left()}

    def traffic(self) -> None:
        """Some thousand packets from the clients to broker 1."""
        place = self.cluster.nodes[TARGET].layout
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(5000):
                # The answer to the one before may be that nobody listens there.
                with contextlib.suppress(OSError):
                    sender.sendto(b"x", (place.host, 9))

    def await_another_cut(self) -> None:
        """Until the rules have gone and come back."""
        for wanted in (True, False, True):
            _wait_for(lambda wanted=wanted: bool(self.left()) == wanted)

    def undo(self) -> None:
        """Takes every rule and limit of broker 1 away, as another program might."""
        packets = self.cluster.network.filter(TARGET)
        for table in packets.tables():
            packets.remove(table)
        for inward in (True, False):
            with contextlib.suppress(LabError):
                self.cluster.network.queue(TARGET, inward).clear()

    def delete_ballast(self) -> None:
        for ballast in self.cluster.nodes[TARGET].layout.data.glob("kaput-ballast-*"):
            ballast.unlink()

    def left(self) -> list[str]:
        """Rules and limits that are in place in the namespaces of all nodes, and on their links."""
        network = self.cluster.network
        found = []
        for node in self.cluster.nodes:
            found += sorted(network.filter(node).tables())
            found += [network.queue(node, inward).state().kind for inward in (True, False)]
        return [what for what in found if what]


def _plain(effect: Effect) -> dict[str, Any]:
    return {"bit": effect.confirmed, "proof": effect.proof, "effective": effect.effective_ns is not None}


def main(folder: Path) -> None:
    """All cases, one after the other, each leaving the cluster as it was."""
    os.environ[MARK] = own_marker()
    enter([])
    java = find_java()
    spec = Cluster(
        brokers=2,
        controllers=1,
        network="namespaces",
        disk_mb=128,
        config={"broker.session.timeout.ms": 4000},
    )
    with Owner() as owner, OwnCluster(owner, spec, resolve(spec.kafka, java), java, folder) as cluster:
        with Admin(cluster) as admin:
            stage = Stage(cluster, admin)
            play_all(stage)
        sys.stdout.write(json.dumps(stage.seen))


def play_all(stage: Stage) -> None:
    """Each fault, its options, and injections that cannot bite."""
    stage.play("isolate", fault="isolate")
    for how in ("drop", "reject"):
        for direction in ("both", "in", "out"):
            stage.play(f"cut {direction} {how}", fault="cut", direction=direction, how=how)
    stage.play("cut from clients", fault="cut", **{"from": "clients"})
    stage.play("cut from controllers", fault="cut", **{"from": ["controllers"]})
    stage.play("cut from broker 2", fault="cut", **{"from": "broker 2"})
    for side in ("both", "target", "others"):
        stage.play(f"partition {side}", fault="partition", **{"clients-with": side})
    stage.play("flap", stage.await_another_cut, fault="flap", down="500ms", up="500ms")
    stage.play("loss", stage.traffic, fault="loss", percent=20)
    stage.play("loss of one in a thousand", fault="loss", percent=0.1)
    stage.play("bandwidth", fault="bandwidth", rate="1mbit")
    stage.play("bandwidth of a slow line", fault="bandwidth", rate="300kbit")
    stage.play("bandwidth of a fast line", fault="bandwidth", rate="200mbit")
    stage.play("reset", fault="reset")
    stage.play("delay", fault="delay", delay="100ms", jitter="20ms")
    stage.play("delay for clients", fault="delay", delay="100ms", jitter="0s", **{"from": "clients"})
    stage.play("delay as uneven as it is long", fault="delay", delay="60ms", jitter="60ms")
    play_undone(stage)
    play_disks(stage)
    play_in_vain(stage)


def play_undone(stage: Stage) -> None:
    """Faults that work, and are then undone from outside."""
    stage.play("cut whose rules are flushed", stage.undo, fault="cut")
    stage.play("bandwidth without its limit", stage.undo, fault="bandwidth", rate="1mbit")
    stage.network = lame = LameNetwork(stage.network)
    second = partial(_wait_for, lambda: lame.puts >= 2)
    stage.play("flap of which one cut does nothing", second, fault="flap", down="1ms", up="1ms")
    stage.network = stage.cluster.network


def play_disks(stage: Stage) -> None:
    """Full disks, one on top of the other; whether the broker ends of it in so short a time is chance."""
    twice = "disk-full on a full disk"
    stage.play("disk-full", lambda: stage.play(twice, fault="disk-full"), fault="disk-full")
    _await_all(stage)
    stage.play("disk-full without its ballast", stage.delete_ballast, fault="disk-full")
    _await_all(stage)


def _await_all(stage: Stage) -> None:
    """Also a broker that a refused write has ended a moment after its disk was healed."""
    try:
        stage.cluster.wait_ready(_PATIENCE_S)
    except BrokerError:
        for node in stage.cluster.nodes.values():
            if not node.running:
                node.start()
        stage.cluster.wait_ready(_PATIENCE_S)


def play_in_vain(stage: Stage) -> None:
    """What cannot bite, and faults on top of each other."""
    stage.play("cut from itself", fault="cut", **{"from": "broker 1"})
    stage.play("reset without connections", fault="reset", **{"from": "clients"})
    stage.play(
        "isolate under a cut",
        meanwhile=lambda: stage.play("cut on an isolated node", fault="cut", **{"from": "broker 2"}),
        fault="isolate",
    )
    stage.play(
        "bandwidth first",
        meanwhile=lambda: stage.play("bandwidth twice", fault="bandwidth", rate="2mbit"),
        fault="bandwidth",
        rate="1mbit",
    )
    stage.cluster.nodes[TARGET].kill()
    for fault in ("isolate", "cut", "partition", "flap", "loss", "reset", "bandwidth", "delay", "disk-full"):
        stage.play(f"{fault} on a dead node", fault=fault)


def _wait_for(condition: Callable[[], bool]) -> None:
    """Until it is true. (What tests import is not at hand here.)"""
    limit = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, "the link does not flap"
        time.sleep(0.005)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
