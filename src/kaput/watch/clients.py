"""The canary, a topic with a partition for each broker, led by that broker; and its clients: a producer for
each partition, and a reader, recorded as in any run.

A client that dies is replaced by a new producer or member with a new number: numbers are never reused.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kaput.cluster.access import Access
from kaput.cluster.admin import Admin
from kaput.cluster.admin.reassignments import reassignment_client
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.evidence.folder import Manifest
from kaput.processes.ownership import Owner
from kaput.runner.samplers import Sampler
from kaput.scenario.model import Scenario
from kaput.watch.message_samples import SendCounts
from kaput.workload.client_spec import MemberSpec, ProducerSpec
from kaput.workload.counters import FIELDS, Counters
from kaput.workload.supervision.client_process import ClientProcess, start_client
from kaput.workload.supervision.launches import member_config, producer_config

_MOST_REPLICAS = 3
_LOOK_S = 5.0
_GROUP_CONFIG = {"session.timeout.ms": 10_000, "topic.metadata.refresh.interval.ms": 5_000}
# A message that is not taken within this time has an unknown outcome.
DELIVERY_S = 30


def replicas_of(leader: int, brokers: Sequence[int]) -> list[int]:
    """The replicas of the partition that this broker leads: itself, and the next brokers in order."""
    at = brokers.index(leader)
    ring = [*brokers[at:], *brokers[:at]]
    return ring[:_MOST_REPLICAS]


def scenario_of(topic: str, group: str, brokers: Sequence[int], rate: float) -> Scenario:
    """A watch as a scenario: `rate` messages a second to each partition."""
    replicas = min(_MOST_REPLICAS, len(brokers))
    return Scenario.model_validate(
        {
            "version": 1,
            "title": "Watch of a live cluster",
            "description": "Messages of kaput watch, through a partition of each broker.",
            "topics": [
                {
                    "name": topic,
                    "assignment": [replicas_of(broker, brokers) for broker in brokers],
                    "config": {
                        "min.insync.replicas": max(1, replicas - 1),
                        "unclean.leader.election.enable": False,
                        "retention.ms": 7 * 24 * 3_600_000,
                    },
                }
            ],
            "workload": {
                "producers": [
                    {
                        "topic": topic,
                        "count": len(brokers),
                        "rate": rate,
                        "acks": "all",
                        "idempotence": True,
                        "duration": "168h",
                        "config": {
                            "message.timeout.ms": DELIVERY_S * 1000,
                            "linger.ms": 5,
                            "topic.metadata.refresh.interval.ms": 5_000,
                        },
                    }
                ],
                "groups": [{"id": group, "topics": [topic], "members": 1, "config": dict(_GROUP_CONFIG)}],
            },
        }
    )


class CanaryKeeper(Sampler):
    """Keeps each partition led by its broker. `on_partition`: called from a thread with the number of a new
    partition; `note`: called with a sentence about each change.
    """

    def __init__(
        self,
        admin: Admin,
        access: Access,
        servers: str,
        topic: str,
        on_partition: Callable[[int], None],
        note: Callable[[str], Any],
    ) -> None:
        self._admin, self._access, self._servers, self._topic = admin, access, servers, topic
        self._on_partition, self._note = on_partition, note
        super().__init__("canary", _LOOK_S)

    def look(self) -> None:
        """Adds a partition, or elects preferred leaders; does nothing while the cluster does not respond."""
        try:
            brokers, partitions = self._admin.live([self._topic])
            owners = {place: state.replicas[0] for place, state in partitions.items() if state.replicas}
            for broker in sorted(brokers - set(owners.values())):
                self._add(broker, sorted(brokers), len(owners))
                return  # one at a time
            back = [
                place
                for place, state in partitions.items()
                if state.leader != owners.get(place) and owners.get(place) in state.isr
            ]
            if back:
                self._give_back(back)
        except LabError:
            return

    def _add(self, broker: int, brokers: Sequence[int], count: int) -> None:
        self._admin.add_partitions(self._topic, count + 1, [replicas_of(broker, brokers)])
        self._note(f"broker {broker} is new: {self._topic}/{count} is its partition")
        self._on_partition(count)

    def _give_back(self, places: Sequence[TopicPartition]) -> None:
        with reassignment_client(self._servers, self._access) as client:
            client.elect(places)
        self._note(f"led by their own brokers again: {', '.join(map(str, sorted(places)))}")


MOST_PRODUCERS = 4_096  # of a watch, including restarts
_READY_S = 30.0


class WatchClients:
    """The clients. `manifest`: of the run folder; `first`: the numbers of the first producer and member."""

    def __init__(
        self,
        owner: Owner,
        folder: Path,
        manifest: Manifest,
        scenario: Scenario,
        existing: tuple[str, Access],
        note: Callable[[str], Any],
        first: tuple[int, int] = (0, 1),
    ) -> None:
        self._owner, self._folder, self._run_id = owner, folder, str(manifest.run_id)
        self._servers, self._access = existing
        (self._producers,), (self._group,) = scenario.workload.producers, scenario.workload.groups
        self._note = note
        self._next_producer, self._next_member = first
        self._scratch = folder / "clients"
        self._scratch.mkdir(exist_ok=True)
        counters = self._scratch / "counters"
        self._counters = Counters(counters, MOST_PRODUCERS, create=not counters.exists())
        self._lock = threading.Lock()
        self._senders: dict[int, ClientProcess] = {}  # by partition
        self._reader: ClientProcess | None = None
        self._partition_of: dict[int, int] = {}  # by producer
        self.dead: set[int] = set()  # producers that ended on their own, or were killed

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the next producer and the next member."""
        return self._next_producer, self._next_member

    def start(self, partitions: Sequence[int]) -> None:
        """Starts the reader and the producers of these partitions. Raises LabError if one is not ready."""
        limit = time.monotonic() + _READY_S
        self._reader = self._start_reader()
        for partition in partitions:
            self._senders[partition] = self._start_sender(partition)
        for client in (self._reader, *self._senders.values()):
            client.await_ready(limit)
        for client in self._senders.values():
            client.go()

    def add(self, partition: int) -> None:
        """Starts a producer for a new partition, without waiting for it."""
        with self._lock:
            self._begin(partition)

    def look(self) -> None:
        with self._lock:
            for partition, client in list(self._senders.items()):
                if not client.process.running:
                    assert client.producer is not None
                    self.dead.add(client.producer)
                    self._note(f"{client.ended()}; restarting it")
                    self._begin(partition)
            if self._reader is not None and not self._reader.process.running:
                self._note(f"{self._reader.ended()}; restarting it")
                self._reader = self._start_reader()

    def attempted(self) -> int:
        return self._counters.total(FIELDS.index("attempted"))

    def sent(self) -> dict[int, SendCounts]:
        """Counts by partition, over all its producers, including earlier ones."""
        found: dict[int, list[int]] = {}
        for number, partition in list(self._partition_of.items()):
            row = self._counters.row(number).tolist()
            found[partition] = [a + b for a, b in zip(found.get(partition, [0] * len(row)), row, strict=True)]
        attempted, acked, failed = (FIELDS.index(name) for name in ("attempted", "acked", "failed"))
        return {
            partition: SendCounts(row[attempted], row[acked], row[failed], sum(row) - row[attempted])
            for partition, row in found.items()
        }

    def stop_sending(self, timeout_s: float) -> None:
        """Stops producers, and waits until every outcome is known or the time limit is reached."""
        clients = list(self._senders.values())
        for client in clients:
            client.send("enough")
        limit = time.monotonic() + timeout_s
        for client in clients:
            while client.process.running and time.monotonic() < limit:
                if client.reported["done"].wait(0.1):
                    break
            if not client.reported["done"].is_set():
                assert client.producer is not None
                self.dead.add(client.producer)

    def stop_reading(self, timeout_s: float = 15) -> None:
        """Stops the reader, which leaves its group."""
        if self._reader is not None and self._reader.process.running:
            self._reader.process.signal(signal.SIGTERM)
            self._reader.process.wait(timeout_s)

    def tidy(self) -> None:
        """Removes files that only the clients needed."""
        for path in self._scratch.glob("counters*"):
            path.unlink(missing_ok=True)

    def _begin(self, partition: int) -> None:
        """Starts a producer for the partition, which sends as soon as it is ready."""
        client = self._senders[partition] = self._start_sender(partition)
        threading.Thread(target=self._go, args=(client,), daemon=True).start()

    def _go(self, client: ClientProcess) -> None:
        try:
            client.await_ready(time.monotonic() + _READY_S)
            client.go()
        except LabError:
            return  # `look` will restart it

    def _start_sender(self, partition: int) -> ClientProcess:
        number, self._next_producer = self._next_producer, self._next_producer + 1
        if number >= MOST_PRODUCERS:
            raise LabError(f"a watch has at most {MOST_PRODUCERS} producers; stop it and start another")
        block = self._producers
        spec = ProducerSpec(
            folder=str(self._folder),
            run_id=self._run_id,
            producer=number,
            topic=block.topic,
            partitions=0,
            messages=None,
            duration_ms=None,
            rate=0.0 if block.rate == "max" else block.rate,
            payload_bytes=block.payload_bytes,
            key="none",
            round_robin=False,
            retries_disabled=False,
            config=producer_config(self._servers, number, block),
            counters=str(self._scratch / "counters"),
            producers=MOST_PRODUCERS,
            thresholds=[],
            access=self._access_file(),
            partition=partition,
        )
        client = self._start(f"producer-{number}", "librdkafka.producer", spec)
        client.producer = number
        self._partition_of[number] = partition
        return client

    def _start_reader(self) -> ClientProcess:
        number, self._next_member = self._next_member, self._next_member + 1
        name = f"m{number}"
        spec = MemberSpec(
            folder=str(self._folder),
            run_id=self._run_id,
            group=self._group.id,
            member=name,
            topics=list(self._group.topics),
            config=member_config(self._servers, self._group, name),
            access=self._access_file(),
        )
        return self._start(f"{self._group.id}-{name}", "librdkafka.member", spec)

    def _start(self, name: str, module: str, spec: ProducerSpec | MemberSpec) -> ClientProcess:
        module = f"kaput.workload.{module}"
        return start_client(self._owner, self._scratch, name, module, spec, _ignore)

    def _access_file(self) -> str | None:
        return None if self._access.path is None else str(self._access.path)


def _ignore(_message: Mapping[str, Any]) -> None:
    """Ignores other messages of clients."""
