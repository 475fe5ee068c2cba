"""Moves a group to another cluster, and records where it actually started there.

Its members leave; its position there is what a mirror translated, or is set; then they join. For each
partition, the first member that gets it reports where it starts, which becomes a row `translated` of the
table `mirror`. Not here: what members do (workload/librdkafka/member.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from kaput.cluster.mirrors.records import checkpoints_topic
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.runner.plan_world import PlanCluster, PlanWorld
from kaput.runner.translated_positions import commit_positions, from_checkpoints
from kaput.scenario.model import Group
from kaput.scenario.plan import PlanStep
from kaput.workload.moving import Hold
from kaput.workload.supervision.supervisor import Moved

_SHOWN = 4


def move_group(world: PlanWorld, group: Group, to: PlanCluster, step: PlanStep) -> str:
    """Moves the group; returns a sentence about where it started. Raises LabError."""
    source = world.group_place(group.id)
    commit = step.commit is not False
    held = world.clients.hold_groups([group.id], Hold(step.settle_s, commit))
    if step.positions is not None and step.positions != "translated":
        positions = _positions(world, group, to, step.positions)
        commit_positions(to.bootstrap_servers, to.access, group.id, positions)
    moved = world.clients.move_groups(to.destination, [group.id])
    if moved.late:
        raise LabError("; ".join(moved.late))
    began = start_positions(moved, to.name) or to.admin.committed(group.id)
    _record(world, f"{source}->{to.name}", group.id, positions_before(held), began)
    places = [f"{place} at {offset:,}" for place, offset in sorted(began.items())]
    where = ", ".join(places[:_SHOWN]) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
    late = f" ({'; '.join(held.late)})" if held.late else ""
    return f"{group.id} continued in {to.name}: {where or 'nowhere yet'}{late}"


def positions_before(held: Moved) -> dict[TopicPartition, int]:
    """How far the group had read in the cluster it left."""
    found: dict[TopicPartition, int] = {}
    for report in held.reports:
        for topic, partition, offset in report["positions"]:
            place = TopicPartition(topic, partition)
            found[place] = max(offset, found.get(place, 0))
    return found


def start_positions(moved: Moved, cluster: str) -> dict[TopicPartition, int]:
    """Where the group started: for each partition, what the first member reported."""
    found: dict[TopicPartition, int] = {}
    reports = [report for report in moved.began if report["cluster"] == cluster]
    for report in sorted(reports, key=lambda report: int(report["at_ns"])):
        for topic, partition, offset in report["places"]:
            found.setdefault(TopicPartition(topic, partition), offset)
    return found


def _positions(world: PlanWorld, group: Group, to: PlanCluster, where: str) -> dict[TopicPartition, int]:
    """The positions at which the group should start. Raises LabError."""
    if where == "checkpoints":
        mirrors = [each for each in world.scenario.mirrors if each.to == to.name and group.id in each.groups]
        return {
            place: offset
            for mirror in mirrors
            for place, offset in from_checkpoints(
                to.bootstrap_servers, to.access, checkpoints_topic(mirror.from_), group.id
            ).items()
        }
    topics = set(group.topics).intersection(world.scenario.topic_names(to.name))
    places = list(to.admin.partitions(topics))
    # The end for read_committed, the default isolation level of members.
    return to.admin.stable_offsets(places) if where == "latest" else to.admin.log_start_offsets(places)


def _record(
    world: PlanWorld,
    mirror: str,
    group: str,
    before: Mapping[TopicPartition, int],
    began: Mapping[TopicPartition, int],
) -> None:
    now = time.time_ns()
    for place, offset in sorted(began.items()):
        world.rows.row(mirror, "translated", group, *place, before.get(place), offset, None, now)
    world.rows.flush()
