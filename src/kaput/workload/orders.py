"""The orders of a run: what each client process is told, and which module it runs, from the scenario.

Not here: starting and ending the processes (crew.py); what an order consists of (order.py).
"""

from __future__ import annotations

import shlex
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kaput.cluster.access import Access
from kaput.evidence.folder import RunFolder
from kaput.evidence.text import prefix_of
from kaput.scenario.model import Config, Group, Producers, Scenario
from kaput.scenario.pipes import producer_number, producers_of, transactional_id
from kaput.scenario.vocabulary import CLIENT_USER
from kaput.workload.java_commands import JavaTools, patience_ms
from kaput.workload.order import (
    CommandMemberOrder,
    CommandProducerOrder,
    JavaMemberOrder,
    JavaProducerOrder,
    MemberOrder,
    PipeOrder,
    ProducerOrder,
    ShareMemberOrder,
    file_name,
)
from kaput.workload.settings import member_config, producer_config, share_member_config

_RETRIES = ("retries", "message.send.max.retries")


class Task(NamedTuple):
    """What a process is told, its name, and the module of this package that it runs."""

    name: str
    module: str
    order: ProducerOrder | MemberOrder

    @property
    def producer(self) -> int | None:
        """The number of what the process sends, if it does."""
        if isinstance(self.order, ProducerOrder):
            return self.order.producer
        return int(self.order.outputs["producer"]) if isinstance(self.order, PipeOrder) else None


@dataclass(frozen=True)
class Orders:
    """Those of one run. `counters`: the file of all producers' counters; `access`: how a user is let in."""

    scenario: Scenario
    folder: RunFolder
    run_id: uuid.UUID
    bootstrap: str
    thresholds: list[int]
    counters: Path
    java: JavaTools
    access: Callable[[str], Access]
    _numbering: threading.Lock = field(default_factory=threading.Lock)
    _pipe_processes: dict[str, int] = field(default_factory=dict)  # by group, how many there have been

    def producer(self, number: int, spec: Producers) -> Task:
        """The producer of that number. Raises DistributionError, JavaError for one in Java."""
        name = f"producer-{number}"
        if spec.client == "librdkafka":
            order = self._producer(number, spec, producer_config(self.bootstrap, number, spec))
            return Task(name, "transactional_producer" if spec.transactions else "producer", order)
        order = self._producer(number, spec, {"bootstrap.servers": self.bootstrap})
        if spec.client == "java":
            words = self.java.producer(name, self.bootstrap, number, prefix_of(self.run_id, number), spec)
            told = JavaProducerOrder(**vars(order), command=words, patience_ms=patience_ms(spec))
            return Task(name, "java_producer", told)
        commanded = CommandProducerOrder(
            **vars(order),
            command=shlex.split(spec.command or ""),
            patience_ms=spec.patience,
            acks=spec.acks,
            idempotence=spec.idempotence,
            client_config=dict(spec.config),
        )
        return Task(name, "command_producer", commanded)

    def member(self, group: Group, number: int, name: str) -> Task:
        """The member of that number, whose process is called `name`. Raises as `producer` does."""
        process, common, place = f"{group.id}-{name}", self._common(group, name), f"member-{number}"
        if group.client == "java":
            share = group.type == "share"
            words = self.java.share_member if share else self.java.member
            command = words(file_name(process), self.bootstrap, place, group)
            told = JavaMemberOrder(**common | {"access": None}, config={}, command=command)
            return Task(process, "java_share_member" if share else "java_member", told)
        if group.type == "share":
            return Task(process, "share_member", self._share_member(group, place, common))
        if group.client == "command":
            return Task(process, "command_member", self._command_member(group, common))
        order = MemberOrder(
            **common,
            config=member_config(self.bootstrap, group, place),
            commit=group.commit,
            commit_sync=group.commit_mode == "sync",
            commit_every=group.commit_every,
            processing_ms=group.processing,
        )
        if group.produces is not None:
            return Task(process, "pipe_member", self._pipe(order, group, place))
        return Task(process, "member", order)

    def _producer(self, number: int, spec: Producers, config: Config) -> ProducerOrder:
        topic = self.scenario.topic(spec.topic)
        assert topic is not None
        return ProducerOrder(
            folder=str(self.folder.path),
            run_id=str(self.run_id),
            producer=number,
            topic=spec.topic,
            # Nobody counts on the partitions of a topic that will have more.
            partitions=0 if self.scenario.resizes(spec.topic) else topic.partitions,
            messages=spec.messages,
            duration_ms=spec.duration,
            rate=0.0 if spec.rate == "max" else spec.rate,
            payload_bytes=spec.payload_bytes,
            key=spec.key,
            round_robin=spec.partitioner == "round-robin",
            retries_disabled=any(str(spec.config.get(name)) == "0" for name in _RETRIES),
            config=config,
            counters=str(self.counters),
            producers=len(self.scenario.producer_specs()),
            thresholds=self.thresholds,
            transactions=spec.transactions.model_dump(mode="json") if spec.transactions else None,
            text=self.scenario.read_by_java(spec.topic),
            access=self._access_by(spec.config),
        )

    def _common(self, group: Group, name: str) -> dict[str, Any]:
        """What every kind of member is told."""
        return {
            "folder": str(self.folder.path),
            "run_id": str(self.run_id),
            "group": group.id,
            "member": name,
            "topics": list(group.topics),
            "type": group.type,
            "access": self._access_by(group.config),
        }

    def _share_member(self, group: Group, place: str, common: dict[str, Any]) -> ShareMemberOrder:
        return ShareMemberOrder(
            **common,
            config=share_member_config(self.bootstrap, group, place),
            processing_ms=group.processing,
            explicit=group.acknowledge == "explicit",
            release_every=group.release_every,
            reject_every=group.reject_every,
        )

    def _command_member(self, group: Group, common: dict[str, Any]) -> CommandMemberOrder:
        return CommandMemberOrder(
            **common,
            config={"bootstrap.servers": self.bootstrap},
            command=shlex.split(group.command or ""),
            isolation=group.isolation,
            client_config=dict(group.config),
        )

    def _pipe(self, member: MemberOrder, group: Group, place: str) -> PipeOrder:
        """A process of its own is a producer of its own; the coordinator knows it by its place."""
        with self._numbering:
            process = self._pipe_processes.get(group.id, 0)
            self._pipe_processes[group.id] = process + 1
        number, spec = producer_number(self.scenario, group, process), producers_of(group)
        config = producer_config(self.bootstrap, number, spec)
        config["transactional.id"] = transactional_id(group.id, place)
        made = vars(self._producer(number, spec, config))
        own = {"counters": f"{self.counters}-{number}", "producers": number + 1, "thresholds": []}
        assert group.produces is not None
        return PipeOrder(**vars(member), outputs=made | own, size=group.produces.size)

    def _access_by(self, config: Config) -> str | None:
        """The file by which a client with these settings is let in; None where everybody is."""
        path = self.access(str(config.get("sasl.username", CLIENT_USER))).path
        return None if path is None else str(path)
