"""The crew: every client process of a run, started, told to go, listened to, and ended.

Its place: run/ owns a Crew; the processes themselves are producer.py and member.py.
"""

from __future__ import annotations

import shlex
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kaput.errors import LabError
from kaput.evidence.folder import RunFolder
from kaput.processes.ownership import Owner
from kaput.scenario.model import Group, Producers, Scenario
from kaput.workload.client import READY_TIMEOUT_S, Client, OnSaid, start
from kaput.workload.counters import FIELDS, Counters
from kaput.workload.order import (
    CommandMemberOrder,
    CommandProducerOrder,
    MemberOrder,
    ProducerOrder,
    ShareMemberOrder,
)
from kaput.workload.post import Post
from kaput.workload.seat import Seat
from kaput.workload.settings import member_config, producer_config, share_member_config

_RETRIES = ("retries", "message.send.max.retries")


class Crew:
    """All producers and group members of one scenario. `on_threshold(n, at_ns)` is called from a thread."""

    def __init__(
        self,
        owner: Owner,
        scenario: Scenario,
        folder: RunFolder,
        run_id: uuid.UUID,
        bootstrap_servers: str,
        thresholds: list[int],
        on_threshold: Callable[[int, int], None],
    ) -> None:
        self._scenario, self._folder, self._run_id = scenario, folder, run_id
        self._bootstrap = bootstrap_servers
        self._thresholds, self._on_threshold = thresholds, on_threshold
        self._owner = owner
        self._scratch = folder.path / "clients"
        self._scratch.mkdir(exist_ok=True)
        self._specs = scenario.producer_specs()
        self._counters_path = self._scratch / "counters"
        self._counters = Counters(self._counters_path, len(self._specs), create=True)
        self._seating = threading.Lock()
        self.producers: list[Client] = []
        self.members: list[Seat] = []

    def start(self) -> None:
        """Starts every client and waits until all are ready. Raises LabError."""
        for group in self._scenario.workload.groups:
            for number in range(1, group.members + 1):
                self.member(group.id, number).start()
        for number, spec in enumerate(self._specs):
            self.producers.append(self._start_producer(number, spec))
        limit = time.monotonic() + READY_TIMEOUT_S
        for client in self.producers + [seat.client for seat in self.members]:
            client.await_ready(limit)

    def member(self, group: str, number: int) -> Seat:
        """That place in that group, made where there was none."""
        with self._seating:
            for seat in self.members:
                if (seat.group, seat.id) == (group, number):
                    return seat
            spec = next(one for one in self._scenario.workload.groups if one.id == group)

            def launch(number: int, name: str, on_said: OnSaid) -> Client:
                return self._start_member(spec, number, name, on_said)

            self.members.append(Seat(self._folder.path, group, number, launch))
            return self.members[-1]

    def members_of(self, group: str) -> list[Seat]:
        """Every place in that group, by number; some may have no process now."""
        with self._seating:
            return sorted((seat for seat in self.members if seat.group == group), key=lambda seat: seat.id)

    def producer(self, number: int) -> Post:
        """That producer, as faults see it. Raises LabError where there is none."""
        if not 0 <= number < len(self.producers):
            raise LabError(f"there is no producer {number}")
        return Post(number, self.producers[number])

    def has_members(self, group: str) -> bool:
        """Whether anybody is left in that group, to read what it has not read yet."""
        return any(seat.running for seat in self.members_of(group))

    def go(self) -> int:
        """Lets every producer start; the moment, in ns. Raises LabError when one has ended meanwhile."""
        now = time.time_ns()
        for client in self.producers:
            client.go()
        return now

    def count(self, name: str) -> int:
        """The live sum of one counter: attempted, acked, failed or unknown."""
        return self._counters.total(FIELDS.index(name))

    def all_said(self, kind: str) -> bool:
        """Whether every producer has said `sent` or `done`. Raises LabError when one ended without."""
        for client in self.producers:
            client.check(kind)
        return all(client.said[kind].is_set() for client in self.producers)

    def troubles(self) -> list[str]:
        """Sentences about members that ended on their own, and about what others' programs did wrong."""
        ended = [said for seat in self.members for said in seat.told_troubles()]
        return ended + [said for client in self._clients() for said in client.findings]

    def stop_members(self, timeout_s: float = 30) -> None:
        """Members leave their groups in good order; a member that does not is ended with the owner."""
        running = [seat.client for seat in self.members if seat.running]
        for client in running:
            client.process.signal(signal.SIGTERM)
        limit = time.monotonic() + timeout_s
        for client in running:
            # One that has died will not say it any more.
            while client.process.running and time.monotonic() < limit:
                if client.said["done"].wait(0.1):
                    break

    def tidy(self) -> None:
        """Removes the live counters and empty error files; the orders stay, they hold the settings."""
        self._counters_path.unlink(missing_ok=True)
        for client in self._clients():
            if client.stderr.stat().st_size == 0:
                client.stderr.unlink()

    def _clients(self) -> list[Client]:
        return [*self.producers, *(client for seat in self.members for client in seat.clients)]

    def _start_producer(self, number: int, spec: Producers) -> Client:
        topic = self._scenario.topic(spec.topic)
        assert topic is not None
        own = spec.client == "librdkafka"
        config = producer_config(self._bootstrap, number, spec)
        order = ProducerOrder(
            folder=str(self._folder.path),
            run_id=str(self._run_id),
            producer=number,
            topic=spec.topic,
            # Nobody counts on the partitions of a topic that will have more.
            partitions=0 if self._scenario.resizes(spec.topic) else topic.partitions,
            messages=spec.messages,
            duration_ms=spec.duration,
            rate=0.0 if spec.rate == "max" else spec.rate,
            payload_bytes=spec.payload_bytes,
            key=spec.key,
            round_robin=spec.partitioner == "round-robin",
            retries_disabled=any(str(spec.config.get(name)) == "0" for name in _RETRIES),
            config=config if own else {"bootstrap.servers": self._bootstrap},
            counters=str(self._counters_path),
            producers=len(self._specs),
            thresholds=self._thresholds,
            transactions=spec.transactions.model_dump(mode="json") if spec.transactions else None,
        )
        if own:
            module = "transactional_producer" if spec.transactions else "producer"
            return self._start(f"producer-{number}", f"kaput.workload.{module}", order, self._on_said)
        commanded = CommandProducerOrder(
            **vars(order),
            command=shlex.split(spec.command or ""),
            patience_ms=spec.patience,
            acks=spec.acks,
            idempotence=spec.idempotence,
            client_config=dict(spec.config),
        )
        return self._start(f"producer-{number}", "kaput.workload.command_producer", commanded, self._on_said)

    def _on_said(self, said: Mapping[str, Any]) -> None:
        if said["kind"] == "threshold":
            self._on_threshold(said["n"], said["at_ns"])

    def _start_member(self, group: Group, number: int, name: str, on_said: OnSaid) -> Client:
        if group.type == "share":
            return self._start_share_member(group, number, name, on_said)
        if group.client == "command":
            return self._start_command_member(group, name, on_said)
        order = MemberOrder(
            folder=str(self._folder.path),
            run_id=str(self._run_id),
            group=group.id,
            member=name,
            topics=list(group.topics),
            config=member_config(self._bootstrap, group, f"member-{number}"),
            type=group.type,
            commit=group.commit,
            commit_sync=group.commit_mode == "sync",
            commit_every=group.commit_every,
            processing_ms=group.processing,
        )
        return self._start(f"{group.id}-{name}", "kaput.workload.member", order, on_said)

    def _start_command_member(self, group: Group, name: str, on_said: OnSaid) -> Client:
        order = CommandMemberOrder(
            folder=str(self._folder.path),
            run_id=str(self._run_id),
            group=group.id,
            member=name,
            topics=list(group.topics),
            config={"bootstrap.servers": self._bootstrap},
            type=group.type,
            command=shlex.split(group.command or ""),
            isolation=group.isolation,
            client_config=dict(group.config),
        )
        return self._start(f"{group.id}-{name}", "kaput.workload.command_member", order, on_said)

    def _start_share_member(self, group: Group, number: int, name: str, on_said: OnSaid) -> Client:
        order = ShareMemberOrder(
            folder=str(self._folder.path),
            run_id=str(self._run_id),
            group=group.id,
            member=name,
            topics=list(group.topics),
            config=share_member_config(self._bootstrap, group, f"member-{number}"),
            type="share",
            processing_ms=group.processing,
            explicit=group.acknowledge == "explicit",
            release_every=group.release_every,
            reject_every=group.reject_every,
        )
        return self._start(f"{group.id}-{name}", "kaput.workload.share_member", order, on_said)

    def _start(self, name: str, module: str, order: ProducerOrder | MemberOrder, on_said: OnSaid) -> Client:
        return start(self._owner, self._scratch, name, module, order, on_said)
