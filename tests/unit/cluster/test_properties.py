"""server.properties and ports: who is what, whose settings win, and where nodes may listen."""

import socket
import sys
from pathlib import Path

import pytest

from kaput.cluster.network.loopback import HOST, Ports, ephemeral_range
from kaput.cluster.properties import NodeLayout, roles, write_properties
from kaput.scenario.model import Cluster


def properties(spec: Cluster, node: int, folder: Path) -> dict[str, str]:
    """What a node of that cluster is told."""
    plan = [
        NodeLayout(
            node_id,
            role,
            "127.0.0.1",
            10_000 + node_id if role != "controller" else None,
            20_000 + node_id if role != "broker" else None,
            folder / str(node_id),
        )
        for node_id, role in roles(spec).items()
    ]
    place = next(p for p in plan if p.id == node)
    write_properties(place, plan, spec)
    lines = place.properties.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_combined_clusters_have_up_to_three_voters() -> None:
    """Brokers 1 to 3 vote; below three brokers the first votes alone; dedicated ones take the vote away."""
    assert roles(Cluster(brokers=5)) == dict.fromkeys([1, 2, 3], "combined") | dict.fromkeys([4, 5], "broker")
    assert roles(Cluster(brokers=2)) == {1: "combined", 2: "broker"}
    assert roles(Cluster(brokers=2, controllers=1)) == {1: "broker", 2: "broker", 101: "controller"}


def test_listeners_of_each_role(tmp_path: Path) -> None:
    """Every node is told the same voters, and listens where its role needs it, on loopback."""
    spec = Cluster(brokers=4)
    combined, broker = properties(spec, 1, tmp_path), properties(spec, 4, tmp_path)
    voters = "1@127.0.0.1:20001,2@127.0.0.1:20002,3@127.0.0.1:20003"
    assert combined["controller.quorum.voters"] == broker["controller.quorum.voters"] == voters
    assert combined["process.roles"] == "broker,controller"
    assert combined["listeners"] == "PLAINTEXT://127.0.0.1:10001,CONTROLLER://127.0.0.1:20001"
    assert (broker["process.roles"], broker["listeners"]) == ("broker", "PLAINTEXT://127.0.0.1:10004")
    controller = properties(Cluster(brokers=1, controllers=1), 101, tmp_path)
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:20101"
    assert "inter.broker.listener.name" not in controller


def test_racks_are_assigned_round_robin(tmp_path: Path) -> None:
    """Also those that are added later; a controller has none."""
    spec = Cluster(brokers=3, controllers=1, racks=["east", "west"])
    found = [properties(spec, node, tmp_path).get("broker.rack") for node in (1, 2, 3, 101)]
    assert found == ["east", "west", "east", None] and spec.rack(4) == "west"
    assert "broker.rack" not in properties(Cluster(), 1, tmp_path)


def test_scenario_settings_override_lab_defaults(tmp_path: Path) -> None:
    """A scenario's own setting replaces the lab's; truth values are written in Kafka's way."""
    config = {"offsets.topic.num.partitions": 50, "unclean.leader.election.enable": True}
    found = properties(Cluster(config=config), 1, tmp_path)
    assert found["offsets.topic.num.partitions"] == "50"
    assert found["unclean.leader.election.enable"] == "true"


@pytest.mark.parametrize(("brokers", "factor"), [(1, "1"), (2, "2"), (3, "3"), (10, "3")])
def test_internal_topic_replication_fits_the_cluster_size(brokers: int, factor: str, tmp_path: Path) -> None:
    """Internal topics can be made on a cluster of any size."""
    found = properties(Cluster(brokers=brokers), 1, tmp_path)
    assert found["offsets.topic.replication.factor"] == factor
    assert found["transaction.state.log.replication.factor"] == factor


def test_failover_settings_keep_kafkas_defaults(tmp_path: Path) -> None:
    """Session timeouts, replica lag and elections are Kafka's defaults unless the scenario changes them."""
    found = properties(Cluster(), 1, tmp_path)
    words = ("session", "lag", "election", "heartbeat", "fetch", "retention", "flush")
    assert [key for key in found if any(word in key for word in words)] == []


def test_ports_are_free_distinct_and_not_ephemeral() -> None:
    """An outgoing connection never gets a port that a restarting node will want."""
    ports = Ports()
    try:
        found = ports.reserve(40)
        low, high = ephemeral_range()
        assert len(set(found)) == 40
        assert all(not low <= port <= high for port in found)
    finally:
        ports.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be held like this")
def test_reserved_port_is_usable_only_with_so_reuseaddr() -> None:
    """Nobody who looks for a free port gets it; a server with SO_REUSEADDR, such as Java's, does."""
    ports = Ports()
    (port,) = ports.reserve(1)
    try:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((HOST, port))
        for _ in range(2):
            with socket.socket() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind((HOST, port))
                server.listen()
                with socket.create_connection((HOST, port), 5) as client:
                    assert client.getpeername() == (HOST, port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), 5)
    finally:
        ports.close()
