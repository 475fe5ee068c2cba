"""The clients of a watch: a producer for each partition of the canary, and a reader, recorded as in any run.

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
from kaput.errors import LabError
from kaput.evidence.folder import Manifest
from kaput.processes.ownership import Owner
from kaput.scenario.model import Scenario
from kaput.watch.message_samples import SendCounts
from kaput.workload.client_spec import MemberSpec, ProducerSpec
from kaput.workload.counters import FIELDS, Counters
from kaput.workload.supervision.client_process import ClientProcess, start_client
from kaput.workload.supervision.launches import member_config, producer_config

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
        """Restarts clients that have ended."""
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
        """How many messages all producers have attempted."""
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
