"""Clients that are moved to another cluster: real processes, with librdkafka's own mocks of two clusters."""

from __future__ import annotations

import sys
import threading
import uuid
from array import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as PartitionOffset
from supervised_clients import SupervisedClients

from kaput import keep
from kaput.evidence.sealing import seal
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.workload.client_spec import MemberSpec
from kaput.workload.counters import FIELDS
from kaput.workload.librdkafka.client_setup import quiet_logger
from kaput.workload.moving import Destination, Hold, Instructions, MoveTo, ProducerMove
from kaput.workload.supervision.supervisor import Supervisor
from streams import rows_so_far
from waiting import PATIENCE_S, eventually, wait_for

EXAMPLE = Path(__file__).parents[3] / "examples" / "clients" / "python" / "client.py"
GROUP = {"id": "billing", "topics": ["orders"]}
QUICK = {"session.timeout.ms": 6000}  # the coordinator notices a dead member
AT_ONCE = Hold(settle_s=0.2, commit=True)


class Clusters:
    """Two clusters with the topic."""

    def __init__(self) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1}
        self._clients = [Producer(settings, logger=quiet_logger()) for _ in range(2)]
        brokers = [client.list_topics("orders", timeout=30).brokers.values() for client in self._clients]
        self._servers = [f"{broker.host}:{broker.port}" for (broker,) in brokers]

    def __getitem__(self, number: int) -> str:
        return self._servers[number]

    def kill(self) -> None:
        """The first one is gone."""
        del self._clients[0]


@pytest.fixture
def clusters() -> Clusters:
    return Clusters()


class Clients(SupervisedClients):
    """Clients under way, and what they have recorded so far."""

    def started(self, of: Scenario, servers: str) -> Supervisor:
        supervisor = self.supervisor_of(of, servers)
        supervisor.start()
        supervisor.go()
        return supervisor

    def so_far(self, table: str) -> list[dict[str, Any]]:
        """What is in the streams."""
        return rows_so_far(self.folder.table(table))

    def ended(self, supervisor: Supervisor) -> list[dict[str, Any]]:
        """Waits for all producers, ends the members, and seals; the sends by seq."""
        wait_for(lambda: supervisor.all_reported("done"), "the end of all producers")
        supervisor.stop_members()
        assert all(slot.process.wait(PATIENCE_S) == 0 for slot in supervisor.members)
        assert supervisor.troubles() == []
        seal(self.folder)
        return sorted(self.rows("sends"), key=lambda row: (int(row["producer"]), int(row["seq"])))


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """With an owner that has a registry of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Owner() as owner:
        yield Clients(owner, tmp_path)


def scenario(messages: int = 1000, groups: list[dict[str, Any]] | None = None, **producer: Any) -> Scenario:
    """A thousand messages in two seconds."""
    sends = {"topic": "orders", "messages": messages, "rate": 500, **producer}
    raw = {"producers": [sends], "groups": groups or []}
    topics = [{"name": "orders", "replication-factor": 1}]
    more = {"stores": {"local": {"kind": "sqlite"}}} if "on-failure" in producer else {}
    return Scenario.model_validate({"version": 1, "title": "t", "topics": topics, "workload": raw, **more})


def test_moved_producer_continues_with_the_next_message(clients: Clients, clusters: Clusters) -> None:
    """Each message is sent to one cluster, and its row says which; none is left out, none refused."""
    supervisor = clients.started(scenario(), clusters[0])
    wait_for(lambda: supervisor.count("acked") > 100, "the first hundred", 30)
    held = supervisor.hold_producers()
    (report,) = held.reports
    assert held.late == [] and held.given_up == 0 and supervisor.count("attempted") == report["next_seq"]
    moved = supervisor.move_producers(Destination("dc2", clusters[1]))
    assert [each["next_seq"] for each in moved.reports] == [report["next_seq"]] and moved.errors == []
    assert [each["acked"] for each in moved.reports] == [report["next_seq"]]
    wait_for(lambda: supervisor.acked(0) > report["next_seq"], "the first acknowledgement there", 30)
    assert supervisor.cluster_of_producer(0) == "dc2"
    sends = clients.ended(supervisor)
    assert [row["seq"] for row in sends] == list(range(1000)) and clients.outcomes() == {"acked": 1000}
    wanted = [None if seq < report["next_seq"] else "dc2" for seq in range(1000)]
    assert [row["cluster"] for row in sends] == wanted
    assert sends[report["next_seq"]]["offset"] == 0, "the first one there"


def test_messages_in_flight_to_a_dead_cluster_are_unknown(clients: Clients, clusters: Clusters) -> None:
    """A producer whose cluster is gone is not kept by it: what it has in flight is given up."""
    supervisor = clients.started(scenario(config={"message.timeout.ms": 300_000}), clusters[0])
    wait_for(lambda: supervisor.count("acked") > 100, "the first hundred", 30)
    clusters.kill()
    wait_for(lambda: supervisor.count("attempted") > 400, "messages that nobody takes", 30)
    held = supervisor.hold_producers(hold=AT_ONCE)
    assert held.given_up > 50
    supervisor.move_producers(Destination("dc2", clusters[1]))
    sends = clients.ended(supervisor)
    assert {row["outcome"] for row in sends if row["cluster"] == "dc2"} == {"acked"}
    assert clients.outcomes()["unknown"] == held.given_up
    assert [row["seq"] for row in sends] == list(range(1000))


def test_kept_messages_are_not_lost_by_a_move(clients: Clients, clusters: Clusters, tmp_path: Path) -> None:
    """With a store nothing is unknown: it has what the old cluster did not take."""
    of = scenario(**{"on-failure": {"stores": ["local"]}})
    stores = {"local": f"sqlite:{tmp_path / 'kept.db'}"}
    keep.SQLite(tmp_path / "kept.db").close()
    supervisor = clients.supervisor_of(of, clusters[0], stores)
    supervisor.start()
    supervisor.go()
    wait_for(lambda: supervisor.count("acked") > 100, "the first hundred", 30)
    clusters.kill()
    wait_for(lambda: supervisor.count("attempted") > 400, "messages that nobody takes", 30)
    held = supervisor.hold_producers(hold=AT_ONCE)
    supervisor.move_producers(Destination("dc2", clusters[1]))
    clients.ended(supervisor)
    outcomes = clients.outcomes()
    assert set(outcomes) == {"acked", "kept"} and outcomes["kept"] == held.given_up > 50
    assert {row["cluster"] for row in clients.rows("kept")} == {None}


def test_producers_of_one_process_move_together(clients: Clients, clusters: Clusters) -> None:
    """Each reports for itself, and each goes on with its own next message."""
    supervisor = clients.started(scenario(300, count=3, **{"per-process": 3}), clusters[0])
    wait_for(lambda: supervisor.count("acked") > 100, "the first hundred", 30)
    supervisor.hold_producers()
    moved = supervisor.move_producers(Destination("dc2", clusters[1]))
    assert sorted(report["producer"] for report in moved.reports) == [0, 1, 2]
    sends = clients.ended(supervisor)
    assert [row["seq"] for row in sends] == [*range(300)] * 3 and clients.outcomes() == {"acked": 900}
    assert {row["cluster"] for row in sends if row["seq"] == 299} == {"dc2"}


def test_a_producer_that_has_sent_everything_is_not_waited_for(clients: Clients, clusters: Clusters) -> None:
    """There is nothing left to move; holding it ends what it waits for."""
    supervisor = clients.started(scenario(20), clusters[0])
    wait_for(lambda: supervisor.all_reported("sent"), "the last message", 30)
    assert supervisor.hold_producers().late == []
    assert supervisor.move_producers(Destination("dc2", clusters[1])).late == []
    assert len(clients.ended(supervisor)) == 20


@pytest.mark.parametrize("kind", ["classic", "command"])
def test_moved_member_resumes_at_the_groups_offset(kind: str, clients: Clients, clusters: Clusters) -> None:
    """It commits, leaves, joins, and reads from the group's offset in the other cluster."""
    command = {"client": "command", "command": f"{sys.executable} {EXAMPLE} consume"}
    group = {"id": "billing", "topics": ["orders"], **(command if kind == "command" else {})}
    supervisor = clients.started(scenario(300, [group], partitioner="round-robin"), clusters[0])
    wait_for(lambda: len(clients.so_far("deliveries")) >= 300, "all deliveries", 60)
    held = supervisor.hold_groups(["billing"])
    assert held.late == [] and len(held.reports) == 1
    _stored_and_committed(clusters[1], "billing", 50, 20)
    moved = supervisor.move_groups(Destination("dc2", clusters[1]), ["billing"])
    assert moved.late == [] and supervisor.cluster_of_group("billing") == "dc2"
    assert eventually(lambda: len(clients.so_far("deliveries")) >= 330, 60)
    clients.ended(supervisor)
    there = [row for row in clients.rows("deliveries") if row["cluster"] == "dc2"]
    assert [row["offset"] for row in there] == list(range(20, 50))
    events = [row for row in clients.rows("group_events") if row["partition"] in (0, None)]
    here = [row["kind"] for row in events if row["cluster"] is None and row["kind"] != "committed"]
    assert here[-2:] == ["revoked", "left"] if kind == "classic" else here[-1:] == ["left"]
    kinds = [row["kind"] for row in events if row["cluster"] == "dc2"]
    assert kinds[0] in ("joined", "assigned") and kinds[-1] == "left"
    if kind == "classic":
        assert held.reports[0]["positions"], "where it would have read on"
        (began,) = supervisor.members[0].client.moves["began"]
        assert ["orders", 0, 20] in began["places"]
        assert [row["offset"] for row in events if (row["cluster"], row["kind"]) == ("dc2", "assigned")] == [
            20
        ]


def test_member_leaves_a_dead_cluster_without_waiting(clients: Clients, clusters: Clusters) -> None:
    """It does not wait longer than it was asked to."""
    group = {**GROUP, "config": QUICK}
    supervisor = clients.started(scenario(300, [group]), clusters[0])
    wait_for(lambda: len(clients.so_far("deliveries")) >= 100, "deliveries", 60)
    supervisor.hold_groups([])  # nobody is meant
    clusters.kill()
    held = supervisor.hold_groups(hold=AT_ONCE)
    (report,) = held.reports
    assert held.late == [] and report["at_ns"] - report["began_ns"] < 5e9
    supervisor.move_groups(Destination("dc2", clusters[1]))
    clients.ended(supervisor)


def test_moved_command_client_continues_in_the_new_cluster(clients: Clients, clusters: Clusters) -> None:
    """It is told by a line, and says when it has moved: what it answers afterwards is of that cluster."""
    of = scenario(client="command", command=f"{sys.executable} {EXAMPLE} produce")
    supervisor = clients.started(of, clusters[0])
    wait_for(lambda: supervisor.count("acked") > 100, "the first hundred", 30)
    held = supervisor.hold_producers()
    moved = supervisor.move_producers(Destination("dc2", clusters[1]))
    assert held.late == moved.late == []
    sends = clients.ended(supervisor)
    first = moved.reports[0]["next_seq"]
    assert [row["cluster"] for row in sends] == [None] * first + ["dc2"] * (1000 - first)
    assert clients.outcomes() == {"acked": 1000}


def test_restarted_member_starts_in_the_new_cluster(clients: Clients, clusters: Clusters) -> None:
    """A slot whose process was killed after the move gets a new one in the new cluster."""
    supervisor = clients.started(scenario(50, [{**GROUP, "config": QUICK}]), clusters[0])
    supervisor.hold_groups()
    supervisor.move_groups(Destination("dc2", clusters[1]))
    slot = supervisor.members[0]
    slot.kill()
    slot.start()
    assert eventually(lambda: slot.ready, 60)
    clients.ended(supervisor)
    assert {row["cluster"] for row in clients.rows("group_events") if row["member"] == "member-1.2"} == {
        "dc2"
    }


def test_instructions_are_read_from_lines() -> None:
    """What is no instruction about moving is left to others; what waits can be seen."""
    told = Instructions()
    assert not told.take({"kind": "pace", "ms": 3}) and not told.waiting and told.next(0) is None
    assert told.take({"kind": "hold", "settle_ms": 1500, "commit": False})
    assert told.take({"kind": "move", "cluster": "dc2", "bootstrap_servers": "a:1", "access": None})
    assert told.next(0) == Hold(1.5, False) and told.waiting
    assert told.next(0) == MoveTo(Destination("dc2", "a:1")) and not told.waiting


def test_destination_changes_only_servers_access_and_cluster(tmp_path: Path) -> None:
    """Settings stay; servers, credentials and the cluster's name are the new ones."""
    config = {"bootstrap.servers": "a:1", "group.id": "billing"}
    spec = MemberSpec(str(tmp_path), str(uuid.UUID(int=1)), "billing", "member-1", ["orders"], config)
    there = Destination("dc2", "b:1", "secrets").applied_to(spec)
    assert there.config == {"bootstrap.servers": "b:1", "group.id": "billing"}
    assert (there.cluster, there.access, there.group) == ("dc2", "secrets", "billing")


def _stored_and_committed(servers: str, group: str, messages: int, offset: int) -> None:
    """What a mirror would have left in partition 0."""
    producer = Producer({"bootstrap.servers": servers}, logger=quiet_logger())
    for _ in range(messages):
        producer.produce("orders", b"x", partition=0)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group}, logger=quiet_logger())
    consumer.commit(offsets=[PartitionOffset("orders", 0, offset)], asynchronous=False)
    consumer.close()


class _Sender:
    """What `ProducerMove` asks of a producer; it notes where its client was opened."""

    idle = True

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.spec = SimpleNamespace(producer=0)
        self.stopping = threading.Event()
        self.counts = memoryview(array("q", [0] * len(FIELDS)))

    def serve(self, timeout_s: float) -> None: ...

    def end_client(self) -> int:
        return 0

    def begin_client(self, move: MoveTo) -> None:
        self.opened.append(move.to.cluster)

    def connect(self, timeout_s: float) -> None: ...


def test_a_move_that_comes_at_the_end_of_a_transaction_is_for_later() -> None:
    """It is not carried out while outcomes are awaited, and not forgotten."""
    sender = _Sender()
    move = ProducerMove(sender)  # type: ignore[arg-type]
    assert move.instructions.take({"kind": "move", "cluster": "dc2", "bootstrap_servers": "there:9092"})
    for _ in range(2):
        move.follow(waits=False, moves=False)
    assert sender.opened == []
    move.follow()
    assert sender.opened == ["dc2"] and not move.instructions.waiting


def test_a_producer_that_has_sent_everything_moves_but_does_not_wait_for_a_move() -> None:
    """It runs callbacks until the others have sent: a hold must not keep it from its end."""
    sender = _Sender()
    move = ProducerMove(sender)  # type: ignore[arg-type]
    assert move.instructions.take({"kind": "hold", "settle_ms": 0, "commit": True})
    move.follow(waits=False)
    assert move.held and sender.opened == []
    assert move.instructions.take({"kind": "move", "cluster": "dc2", "bootstrap_servers": "there:9092"})
    move.follow(waits=False)
    assert not move.held and sender.opened == ["dc2"]
