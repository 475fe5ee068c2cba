"""The state of a running cluster in one document: brokers, controller, partitions, consumer lag, faults."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kaput.errors import LabError

if TYPE_CHECKING:
    from kaput.cluster.admin import Admin, PartitionState
    from kaput.cluster.node import Node
    from kaput.core import TopicPartition
    from kaput.operate.lab import Lab


def status_of(lab: Lab, every: Iterable[Node], admin: Admin) -> dict[str, Any]:
    """The document. Parts that cannot be read right now are null, with the reasons in `unknown`."""
    unknown: list[str] = []
    return {
        **summary_of(lab, every),
        "controller": _or_unknown(lab.controller, unknown),
        "partitions": _or_unknown(lambda: _partitions(admin), unknown),
        "groups": _or_unknown(lambda: _groups(admin), unknown),
        "unknown": unknown,
    }


def summary_of(lab: Lab, every: Iterable[Node]) -> dict[str, Any]:
    """The parts that need no request to brokers."""
    nodes = [_node(node) for node in every]
    return {
        "kafka": lab.spec.kafka,
        "mode": lab.spec.mode,
        "network": lab.spec.network,
        "security": lab.spec.security,
        "bootstrap_servers": lab.bootstrap_servers,
        "brokers": [node for node in nodes if node["role"] in ("broker", "combined")],
        "others": [node for node in nodes if node["role"] not in ("broker", "combined")],
        "faults": [asdict(each) for each in lab.active_faults],
        "troubles": lab.troubles(),
    }


def partition_row(place: TopicPartition, state: PartitionState) -> dict[str, Any]:
    """A partition's row in the document."""
    return {
        "topic": place.topic,
        "partition": place.partition,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "replicas": state.replicas,
        "isr": state.isr,
        "under_replicated": set(state.isr) != set(state.replicas),
    }


def _or_unknown(request: Any, unknown: list[str]) -> Any:
    try:
        return request()
    except LabError as error:
        unknown.append(str(error))
        return None


def _node(node: Node) -> dict[str, Any]:
    state = "down" if not node.running else "paused" if node.is_stopped() else "running"
    return {"id": node.id, "role": node.role, "state": state, "pid": node.pid if node.running else None}


def _partitions(admin: Admin) -> list[dict[str, Any]]:
    names = admin.topics()
    if not names:
        return []
    return [partition_row(place, state) for place, state in admin.partitions(names).items()]


def _groups(admin: Admin) -> list[dict[str, Any]]:
    found = []
    for group in admin.groups():
        committed = admin.committed(group)
        ends = admin.high_watermarks(committed)
        partitions: list[dict[str, Any]] = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "committed": offset,
                "end": ends[place],
                "lag": ends[place] - offset,
            }
            for place, offset in sorted(committed.items())
        ]
        lag = sum(each["lag"] for each in partitions)
        found.append({"group": group, "lag": lag, "partitions": partitions})
    return found
