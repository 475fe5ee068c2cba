"""What ZooKeeper nodes and their brokers are told, and what is read from a znode."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kaput.cluster.admin.ensemble import Znode, read_znode
from kaput.cluster.properties import NodeLayout, roles, write_properties
from kaput.cluster.wire import Endpoint, Unanswered
from kaput.cluster.zookeeper.mode import broker_identity, write_zookeeper
from kaput.scenario.model import Cluster


def plan(spec: Cluster, folder: Path) -> dict[int, NodeLayout]:
    """A place for every node, on addresses of their own."""
    return {
        i: NodeLayout(
            i,
            role,
            f"10.0.0.{i}",
            9092 if role == "broker" else None,
            None,
            folder / str(i),
            (2181, 2888, 3888) if role == "zookeeper" else None,
        )
        for i, role in roles(spec).items()
    }


def written(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def test_roles_in_zookeeper_mode() -> None:
    """Brokers are brokers and nothing else; controllers are not asked for."""
    found = roles(Cluster(mode="zookeeper", brokers=2, controllers=1, zookeepers=3))
    assert found == {1: "broker", 2: "broker"} | dict.fromkeys([201, 202, 203], "zookeeper")


def test_broker_connects_to_every_zookeeper_node(tmp_path: Path) -> None:
    """At its own address; nothing of KRaft, nothing that decides about failover."""
    spec = Cluster(mode="zookeeper", zookeepers=3)
    places = plan(spec, tmp_path)
    write_properties(places[2], list(places.values()), spec, identity=broker_identity)
    found = written(tmp_path / "2" / "server.properties")
    assert found["broker.id"] == "2"
    assert found["zookeeper.connect"] == "10.0.0.201:2181,10.0.0.202:2181,10.0.0.203:2181"
    assert found["listeners"] == "PLAINTEXT://10.0.0.2:9092"
    words = ("process.roles", "node.id", "controller", "session", "lag", "election")
    assert [key for key in found if any(word in key for word in words)] == []


@pytest.mark.parametrize("count", [1, 3])
def test_zookeeper_ensemble_configuration(tmp_path: Path, count: int) -> None:
    """One alone has no quorum to form; of three each has its number where ZooKeeper looks for it."""
    spec = Cluster.model_validate({"mode": "zookeeper", "zookeepers": count})
    places = plan(spec, tmp_path)
    for place in places.values():
        place.folder.mkdir()
    write_zookeeper(places[201], list(places.values()))
    found = written(tmp_path / "201" / "zoo.cfg")
    servers = {key: value for key, value in found.items() if key.startswith("server.")}
    expected = {f"server.{i}": f"10.0.0.{i}:2888:3888" for i in (201, 202, 203)}
    assert servers == (expected if count == 3 else {})
    assert (found["clientPort"], found["clientPortAddress"]) == ("2181", "10.0.0.201")
    assert (places[201].data / "myid").read_text() == "201\n"
    assert found["dataDir"] == str(places[201].data)


@contextmanager
def answering(*answers: bytes) -> Iterator[Endpoint]:
    """A server that gives these answers, one a message, to one connection."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with closing(connection):
                for answer in answers:
                    connection.recv(4096)
                    connection.sendall(struct.pack(">i", len(answer)) + answer)
                connection.recv(4096)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Endpoint(*server.getsockname())
        thread.join(5)


CONNECTED = struct.pack(">iiqi16s?", 0, 5000, 77, 16, b"x" * 16, False)


def test_znode_value_and_times_are_read() -> None:
    """Its value, and by ZooKeeper's own account when it was last changed."""
    value = json.dumps({"brokerid": 3}).encode()
    stat = struct.pack(">qqqqiiiqiiq", 5, 9, 1000, 2000, 1, 0, 0, 0, len(value), 0, 5)
    answer = struct.pack(">iqii", 1, 12, 0, len(value)) + value + stat
    with answering(CONNECTED, answer) as endpoint:
        assert read_znode(endpoint, "/controller", 5) == Znode({"brokerid": 3}, 9, 2000)


def test_missing_znode_is_none() -> None:
    """That is an answer, not a failure."""
    with answering(CONNECTED, struct.pack(">iqi", 1, 12, -101)) as endpoint:
        assert read_znode(endpoint, "/controller", 5) is None


def test_zookeeper_error_or_timeout_is_unanswered() -> None:
    """So is silence: neither tells anything about the znode."""
    refused = struct.pack(">iqi", 1, 12, -112)
    with answering(CONNECTED, refused) as endpoint, pytest.raises(Unanswered, match="error -112"):
        read_znode(endpoint, "/controller", 5)
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as silent,
        pytest.raises(Unanswered, match=r"in time|timed"),
    ):
        read_znode(Endpoint(*silent.getsockname()), "/controller", 0.2)
