"""The loopback network: places for nodes, and a clear word to whoever wants to break it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from kaput.cluster.network.loopback import Loopback
from kaput.errors import LabError


def test_loopback_nodes_differ_only_in_ports() -> None:
    """One address, ports of their own, the command as it is."""
    network = Loopback()
    network.join([1, 2])
    ports = network.ports(4)
    network.close()
    assert len(set(ports)) == 4
    assert network.host(1) == network.host(2) == network.clients == "127.0.0.1"
    assert network.command(1, ["java", "x"]) == ["java", "x"]


@pytest.mark.parametrize(
    "action",
    [
        lambda network: network.filter(1),
        lambda network: network.queue(1, inward=True),
        lambda network: network.connections(1, ["10.77.0.2"]),
        lambda network: network.tear_down(1, ["10.77.0.2"]),
        lambda network: network.socket(1),
        lambda network: network.spawn(1, ["true"], "x"),
    ],
)
def test_network_faults_are_rejected_on_loopback(action: Callable[[Loopback], object]) -> None:
    """Every way into a node's own place is refused, with what to write instead."""
    with pytest.raises(LabError, match=r"write cluster\.network: namespaces"):
        action(Loopback())


def test_pyroute2_is_not_imported_without_namespaces() -> None:
    """Its import takes a quarter of a second: `kaput --help` and runs on loopback never pay that."""
    told = "import sys, kaput.cli.main, kaput.runner.experiment, kaput.cluster.network.reexec; "
    told += "print([name for name in sys.modules if name.startswith('pyroute2')])"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
