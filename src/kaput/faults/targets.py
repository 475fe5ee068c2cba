"""Who is hit: a target's words become node ids at the moment of injection.

`any` and `minority` are drawn from the step's seed, so a seed repeats a run's choices.
"""

from __future__ import annotations

import random

from kaput.cluster.admin import Admin
from kaput.errors import LabError


def resolve(target: str, admin: Admin, brokers: list[int], seed: int) -> list[int]:
    """The node ids that `target` means right now, ascending. Raises LabError when there is none."""
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
        case _:
            return _replicas(kind, rest, admin, draw)


def _replicas(role: str, place: str, admin: Admin, draw: random.Random) -> list[int]:
    topic, _, partition = place.rpartition("/")
    state = admin.partitions([topic])[(topic, int(partition))]
    if state.leader is None:
        raise LabError(f"{place} has no leader, so {role} {place} is nobody")
    followers = sorted(set(state.replicas) - {state.leader})
    if role == "leader-of":
        return [state.leader]
    if not followers:
        raise LabError(f"{place} has one replica only, so {role} {place} is nobody")
    return followers if role == "followers-of" else [draw.choice(followers)]
