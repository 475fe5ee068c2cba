"""Which module each client process of a run executes, with which spec and settings, from the scenario.

Settings of librdkafka are kaput's own, then the scenario's, which are passed through. Not here: starting and
ending the processes (supervisor.py); the fields of specs (client_spec.py).
"""

from __future__ import annotations

import shlex
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from kaput.cluster.access import AccessOf
from kaput.evidence.folder import RunFolder
from kaput.scenario.clients import java_settings, user_of
from kaput.scenario.groups import INSTANCE, kind_of_client
from kaput.scenario.model import (
    Config,
    Group,
    Producers,
    Scenario,
    member_transactional_id,
    producer_number,
    spec_of,
)
from kaput.scenario.producers import transactional_id
from kaput.workload.client_spec import (
    CommandMemberSpec,
    CommandProducerSpec,
    JavaMemberSpec,
    MemberSpec,
    PipeMemberSpec,
    ProducerSpec,
    SharedProducersSpec,
    ShareMemberSpec,
    file_name,
)
from kaput.workload.java.command_lines import JavaTools, patience_ms
from kaput.workload.moving import Destination


def client_id(number: int, tag: str = "") -> str:
    """A producer's client id: `kaput-producer-3`, with a run's name on a shared cluster."""
    return f"kaput-producer-{number}" + (f"@{tag}" if tag else "")


def _module(block: Producers) -> str:
    kind = "transactional_" if block.transactions else "keeping_" if block.on_failure else ""
    return f"librdkafka.{kind}producer"


def producer_config(bootstrap_servers: str, number: int, spec: Producers, tag: str = "") -> Config:
    config: Config = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": client_id(number, tag),
        "acks": spec.acks,
        "enable.idempotence": spec.idempotence,
    }
    if spec.transactions is not None:
        config["transactional.id"] = transactional_id(number, spec.transactions.id_prefix)
    if spec.partitioner != "round-robin":
        config["partitioner"] = spec.partitioner
    return {**config, **spec.config}


def member_config(bootstrap_servers: str, group: Group, member: str) -> Config:
    """Settings of one member of a group; reads from the start by default."""
    config: Config = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": f"kaput-{group.id}-{member}",
        "group.id": group.id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": group.commit == "auto",
        # By default the client stops fetching for a second whenever its queue is full.
        "fetch.queue.backoff.ms": 10,
    }
    if group.type == "consumer":
        config["group.protocol"] = "consumer"
    if group.assignor is not None:
        config["partition.assignment.strategy"] = group.assignor
    if instance := group.instance_of(member):
        config[INSTANCE] = instance
    return {**config, **group.config}


def share_member_config(bootstrap_servers: str, group: Group, member: str) -> Config:
    config: Config = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": f"kaput-{group.id}-{member}",
        "group.id": group.id,
        "share.acknowledgement.mode": group.acknowledge,
    }
    return {**config, **group.config}


class Launch(NamedTuple):
    """A process to start: its name, the module in kaput.workload that it runs, and its spec. `kind`: of
    client, for reports; `version`: of confluent-kafka, if not kaput's own.
    """

    name: str
    module: str
    spec: ProducerSpec | SharedProducersSpec | MemberSpec
    kind: str = ""
    version: str | None = None

    @property
    def producer(self) -> int | None:
        """The process's producer number, if it has a single one."""
        if isinstance(self.spec, ProducerSpec):
            return self.spec.producer
        return int(self.spec.outputs["producer"]) if isinstance(self.spec, PipeMemberSpec) else None


@dataclass(frozen=True)
class LaunchPlan:
    """The launches of one run. `counters`: the file of live counters; `access`: a user's credentials;
    `destinations`: where groups were moved, by group.
    """

    scenario: Scenario
    folder: RunFolder
    run_id: uuid.UUID
    bootstrap: str
    thresholds: list[int]
    counters: Path
    java: JavaTools
    access: AccessOf
    stores: Mapping[str, str] = field(default_factory=dict)  # their URLs by name
    servers: Mapping[str, str] = field(default_factory=dict)  # by cluster, if there are several
    tag: str = ""  # distinguishes producers of runs that share a cluster
    destinations: dict[str, Destination] = field(default_factory=dict)
    _numbering: threading.Lock = field(default_factory=threading.Lock)
    _pipe_processes: dict[str, int] = field(default_factory=dict)  # by group, how many were started

    def producers(self) -> Iterator[tuple[range, Launch]]:
        """The processes of all producers, each with its producers' numbers. Raises as `producer` does."""
        number = 0
        for block in self.scenario.workload.producers:
            for start in range(number, number + block.count, block.per_process):
                numbers = range(start, min(start + block.per_process, number + block.count))
                yield numbers, _with_client(block, self._process(numbers, block))
            number += block.count

    def servers_of(self, block: Producers | Group) -> str:
        return self.servers.get(block.cluster or "", self.bootstrap)

    def _process(self, numbers: range, block: Producers) -> Launch:
        if len(numbers) == 1:
            return self.producer(numbers[0], block)
        specs = [vars(self.producer(number, block).spec) for number in numbers]
        name = f"producers-{numbers[0]}-{numbers[-1]}"
        return Launch(name, _module(block), SharedProducersSpec(specs))

    def producer(self, number: int, block: Producers) -> Launch:
        """The launch of the producer with that number. Raises DistributionError, JavaError."""
        name, servers = f"producer-{number}", self.servers_of(block)
        if block.client == "librdkafka":
            spec = self._producer(number, block, producer_config(servers, number, block, self.tag))
            return Launch(name, _module(block), spec)
        spec = self._producer(number, block, {"bootstrap.servers": servers})
        common: dict[str, Any] = {**vars(spec), "acks": block.acks, "idempotence": block.idempotence}
        if block.transactions is not None:
            common["transactional_id"] = transactional_id(number, block.transactions.id_prefix)
        if block.client == "java":
            launched = CommandProducerSpec(
                **common,
                command=self.java.producer(block.client_version),
                patience_ms=patience_ms(block),
                client_config={"client.id": client_id(number, self.tag), **java_settings(block.config)},
                who="Kafka's Java producer",
            )
        else:
            launched = CommandProducerSpec(
                **common,
                command=shlex.split(block.command or ""),
                patience_ms=block.patience,
                client_config=dict(block.config),
            )
        return Launch(name, "command.producer", launched)

    def producer_again(self, number: int, process: int, passed_ms: int) -> Launch:
        """A killed producer, started again as its process `passed_ms` into the load. Raises as `producer`."""
        block = self.scenario.producer_specs()[number]
        launch = _with_client(block, self.producer(number, block))
        spec = launch.spec
        assert isinstance(spec, ProducerSpec)
        left = None if spec.duration_ms is None else max(spec.starts_ms + spec.duration_ms - passed_ms, 1)
        starts_ms = max(spec.starts_ms - passed_ms, 0)
        spec = replace(spec, process=process, starts_ms=starts_ms, duration_ms=left)
        return launch._replace(name=spec.writer, spec=spec)

    def member(self, group: Group, number: int, name: str) -> Launch:
        """The launch of that member, named `name`. Raises as `producer` does."""
        as_known = group.as_member(number)
        launch = _with_client(as_known, self._member(as_known, number, name))
        to = self.destinations.get(group.id)
        assert isinstance(launch.spec, MemberSpec)
        return launch if to is None else launch._replace(spec=to.applied_to(launch.spec))

    def _member(self, group: Group, number: int, name: str) -> Launch:
        process, common, place = f"{group.id}-{name}", self._common(group, name), f"member-{number}"
        servers = self.servers_of(group)
        if group.client == "java":
            share = group.type == "share"
            words = self.java.share_member if share else self.java.member
            command = words(file_name(process), servers, place, group)
            java = JavaMemberSpec(**common | {"access": None}, config={}, command=command)
            return Launch(process, "java.share_member" if share else "java.member", java)
        if group.type == "share":
            return Launch(process, "librdkafka.share_member", self._share_member(group, place, common))
        if group.client == "command":
            return Launch(process, "command.member", self._command_member(group, common))
        spec = MemberSpec(
            **common,
            config=member_config(servers, group, place),
            commit=group.commit,
            commit_sync=group.commit_mode == "sync",
            commit_every=group.commit_every,
            processing_ms=group.processing,
        )
        if group.produces is not None:
            return Launch(process, "librdkafka.pipe_member", self._pipe(spec, group, place))
        return Launch(process, "librdkafka.member", spec)

    def _producer(self, number: int, block: Producers, config: Config) -> ProducerSpec:
        topic = self.scenario.topic(block.topic, block.cluster)
        assert topic is not None
        return ProducerSpec(
            folder=str(self.folder.path),
            run_id=str(self.run_id),
            producer=number,
            topic=block.topic,
            # 0: the number of partitions changes during the run.
            partitions=0 if self.scenario.resizes(block.topic, block.cluster) else topic.partitions,
            messages=block.messages,
            duration_ms=block.duration,
            rate=0.0 if block.rate == "max" else block.rate,
            payload_bytes=block.payload_bytes,
            key=block.key,
            round_robin=block.partitioner == "round-robin",
            retries_disabled=block.retries_disabled,
            config=config,
            counters=str(self.counters),
            producers=len(self.scenario.producer_specs()),
            thresholds=self.thresholds,
            transactions=block.transactions.model_dump(mode="json") if block.transactions else None,
            text=self.scenario.read_by_java(block.topic),
            access=self._access_by(block),
            on_failure=self._on_failure(block),
            cluster=block.cluster,
            starts_ms=block.starts or 0,
            timestamps_ms=block.timestamps,
        )

    def _on_failure(self, block: Producers) -> dict[str, Any] | None:
        spec_on_failure = block.on_failure
        if spec_on_failure is None:
            return None
        return {
            **vars(spec_on_failure),
            "stores": {name: self.stores[name] for name in spec_on_failure.stores},
        }

    def _common(self, group: Group, name: str) -> dict[str, Any]:
        """The fields that all kinds of member specs share."""
        return {
            "folder": str(self.folder.path),
            "run_id": str(self.run_id),
            "group": group.id,
            "member": name,
            "topics": list(group.topics),
            "type": group.type,
            "access": self._access_by(group),
            "cluster": group.cluster,
        }

    def _share_member(self, group: Group, place: str, common: dict[str, Any]) -> ShareMemberSpec:
        return ShareMemberSpec(
            **common,
            config=share_member_config(self.servers_of(group), group, place),
            processing_ms=group.processing,
            explicit=group.acknowledge == "explicit",
            release_every=group.release_every,
            reject_every=group.reject_every,
        )

    def _command_member(self, group: Group, common: dict[str, Any]) -> CommandMemberSpec:
        return CommandMemberSpec(
            **common,
            config={"bootstrap.servers": self.servers_of(group)},
            command=shlex.split(group.command or ""),
            isolation=group.isolation,
            client_config=dict(group.config),
        )

    def _pipe(self, member: MemberSpec, group: Group, place: str) -> PipeMemberSpec:
        """Each process is a separate producer; its transactional id comes from its slot."""
        with self._numbering:
            process = self._pipe_processes.get(group.id, 0)
            self._pipe_processes[group.id] = process + 1
        number = producer_number(self.scenario, group, process)
        block = spec_of(self.scenario, number)
        assert group.produces is not None and block is not None
        config = producer_config(self.servers_of(group), number, block, self.tag)
        config["transactional.id"] = member_transactional_id(group.id, place)
        made = vars(self._producer(number, block, config))
        own = {"counters": f"{self.counters}-{number}", "producers": number + 1, "thresholds": []}
        return PipeMemberSpec(**vars(member), outputs=made | own, size=group.produces.size)

    def _access_by(self, block: Producers | Group) -> str | None:
        """The file with the credentials of these clients; None on a cluster without security."""
        path = self.access(block.cluster, user_of(block.config)).path
        return None if path is None else str(path)


def _with_client(block: Producers | Group, launch: Launch) -> Launch:
    version = block.client_version if block.client == "librdkafka" else None
    return launch._replace(kind=kind_of_client(block), version=version)
