"""Resolves targets at the moment of injection: to node ids, or to members of a group.

`any`, `any member` and `minority` are drawn from the step's seed, so a seed repeats a run's choices.
"""

from __future__ import annotations

import random

from kaput.cluster.admin import Admin
from kaput.core import TopicPartition, cluster_and_topic
from kaput.errors import LabError
from kaput.faults.members.member import Member, RunMembers
from kaput.scenario.transactions import ID_PREFIX, transactional_id
from kaput.scenario.values import target_members


def resolve(
    target: str, admin: Admin, brokers: list[int], seed: int, id_prefix: str = ID_PREFIX
) -> list[int]:
    """The ids of the nodes that `target` matches now, ascending. Raises LabError if there are none."""
    kind, _, rest = target.partition(" ")
    draw = random.Random(seed)
    match kind:
        case "broker":
            return [int(rest)]
        case "any":
            return [draw.choice(brokers)]
        case "minority":
            return sorted(draw.sample(brokers, (len(brokers) - 1) // 2))
        case "all":
            return list(brokers)
        case "controller":
            return [admin.controller_id()]
        case "zookeeper":
            return admin.zookeepers()
        case "coordinator-of":
            return [admin.coordinator(rest)]
        case "transaction-coordinator-of":
            number = int(rest.removeprefix("producer "))
            return [admin.transaction_coordinator(transactional_id(number, id_prefix))]
        case _:
            return _replicas(kind, rest, admin, draw)


def resolve_members(target: str, groups: RunMembers, seed: int) -> list[Member]:
    """The members that `target` matches now: one slot, or running members.

    Raises LabError if there are none.
    """
    meant = target_members(target)
    assert meant is not None
    if meant.number is not None:
        return [groups.member(meant.group, meant.number)]
    running = [member for member in groups.members_of(meant.group) if member.running]
    if not running:
        raise LabError(f"no member of {meant.group} runs, so {target} matches nothing")
    return running if meant.all else [random.Random(seed).choice(running)]


def _replicas(role: str, place: str, admin: Admin, draw: random.Random) -> list[int]:
    name, _, partition = place.rpartition("/")
    _, topic = cluster_and_topic(name)
    known = admin.partitions([topic])
    state = known.get(TopicPartition(topic, int(partition)))
    if state is None:
        raise LabError(f"{topic} has partitions 0 to {len(known) - 1}, and no {partition}")
    if state.leader is None:
        raise LabError(f"{place} has no leader, so {role} {place} matches nothing")
    followers = sorted(set(state.replicas) - {state.leader})
    if role == "leader-of":
        return [state.leader]
    if not followers:
        raise LabError(f"{place} has only one replica, so {role} {place} matches nothing")
    return followers if role == "followers-of" else [draw.choice(followers)]
