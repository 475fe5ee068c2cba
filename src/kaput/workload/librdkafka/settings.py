"""librdkafka's settings of each client: kaput's own, and the scenario's, which are passed through."""

from __future__ import annotations

from kaput.scenario.model import Config, Group, Producers
from kaput.scenario.transactions import transactional_id


def client_id(number: int, tag: str = "") -> str:
    """A producer's client id: `kaput-producer-3`, or `kaput-producer-3@7-1` in a run that
    shares its cluster.
    """
    return f"kaput-producer-{number}" + (f"@{tag}" if tag else "")


def producer_config(bootstrap_servers: str, number: int, spec: Producers, tag: str = "") -> Config:
    """Settings of one producer."""
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
    if group.static:
        config["group.instance.id"] = f"{group.id}-{member}"
    return {**config, **group.config}


def share_member_config(bootstrap_servers: str, group: Group, member: str) -> Config:
    """Settings of one member of a share group."""
    config: Config = {
        "bootstrap.servers": bootstrap_servers,
        "client.id": f"kaput-{group.id}-{member}",
        "group.id": group.id,
        "share.acknowledgement.mode": group.acknowledge,
    }
    return {**config, **group.config}
