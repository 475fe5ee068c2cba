"""What each step of a plan does, and what proves that it worked: one function per step, which returns the
proof. A step that fails raises LabError with the reason.

A group that is moved leaves; its position in the other cluster is what a mirror translated, or is set; then
its members join there. For each partition, the first member that gets it reports where it starts, which
becomes a row `translated` of the table `mirror`. Not here: when steps begin, and their rows (plan.py); what
members do (workload/librdkafka/member.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kaput.cluster.mirrors.records import checkpoints_topic
from kaput.core import TopicPartition, first_few, plural
from kaput.errors import LabError
from kaput.faults.fault import in_parallel, name_all
from kaput.runner.mirrors.watching import COMMIT_S, from_checkpoints
from kaput.runner.plan.world import PlanWorld
from kaput.runner.run_cluster import RunCluster
from kaput.scenario.checks.plan import moved_groups
from kaput.scenario.mirrors import Mirror
from kaput.scenario.model import Group
from kaput.scenario.plan import PlanStep
from kaput.workload.moving import Hold
from kaput.workload.supervision.supervisor import Moved

_SHOWN = 4


def move_group(world: PlanWorld, group: Group, to: RunCluster, step: PlanStep) -> str:
    """Moves the group; returns a sentence about where it started. Raises LabError."""
    source = world.group_place(group.id)
    commit = step.commit is not False
    held = world.clients.hold_groups([group.id], Hold(step.settle_s, commit))
    if step.positions is not None and step.positions != "translated":
        positions = _positions(world, group, to, step.positions)
        with to.kafka.admin(COMMIT_S) as admin:
            admin.commit(group.id, positions)
    moved = world.clients.move_groups(to.destination, [group.id])
    if moved.late:
        raise LabError("; ".join(moved.late))
    began = start_positions(moved, to.name) or to.admin.committed(group.id)
    _record(world, f"{source}->{to.name}", group.id, positions_before(held), began)
    places = [f"{place} at {offset:,}" for place, offset in sorted(began.items())]
    late = f" ({'; '.join(held.late)})" if held.late else ""
    return f"{group.id} continued in {to.name}: {first_few(places, _SHOWN) or 'nowhere yet'}{late}"


def positions_before(held: Moved) -> dict[TopicPartition, int]:
    """How far the group had read in the cluster it left."""
    positions: dict[TopicPartition, int] = {}
    for report in held.reports:
        for topic, partition, offset in report["positions"]:
            place = TopicPartition(topic, partition)
            positions[place] = max(offset, positions.get(place, 0))
    return positions


def start_positions(moved: Moved, cluster: str) -> dict[TopicPartition, int]:
    """Where the group started: for each partition, what the first member reported."""
    positions: dict[TopicPartition, int] = {}
    reports = [report for report in moved.began if report["cluster"] == cluster]
    for report in sorted(reports, key=lambda report: int(report["at_ns"])):
        for topic, partition, offset in report["places"]:
            positions.setdefault(TopicPartition(topic, partition), offset)
    return positions


def _positions(world: PlanWorld, group: Group, to: RunCluster, where: str) -> dict[TopicPartition, int]:
    """The positions at which the group should start. Raises LabError."""
    if where == "checkpoints":
        mirrors = [each for each in world.scenario.mirrors if each.to == to.name and group.id in each.groups]
        return {
            place: offset
            for mirror in mirrors
            for place, offset in from_checkpoints(
                to.kafka.bootstrap_servers, to.kafka.access(), checkpoints_topic(mirror.from_), group.id
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
        world.rows.row(
            mirror=mirror, kind="translated", group=group, topic=place.topic, partition=place.partition,
            source_offset=before.get(place), target_offset=offset, at_ns=now,
        )  # fmt: skip
    world.rows.flush()


_STOP_S = 30.0
_BACK_S = 60.0  # for a cluster to answer after a heal
_STOP_MIRROR_S = 10.0
_STOP_CUT_OFF_S = 1.0  # a mirror that does not reach its source has nothing left to write
_FIRST_S = 5.0  # for the first messages in the new cluster
_INTERVALS = 2  # of the mirror; positions that have not moved for this many are final

Step = Callable[[PlanWorld, PlanStep], str]


def notice(world: PlanWorld, step: PlanStep) -> str:
    """The outage is noticed: times are measured from here."""
    cluster = world.cluster(step.cluster)
    why = cluster.why_unreachable()
    if why is None:
        return f"{cluster.name} answers"
    return f"no broker of {cluster.name} answers: {why}"


def decide(world: PlanWorld, step: PlanStep) -> str:
    """Somebody decides to fail over."""
    takes_s = (step.takes or 0) / 1000
    world.aborted.wait(takes_s)
    return f"after {takes_s:g} s, as planned"


def fence(world: PlanWorld, step: PlanStep) -> str:
    """Stops writes to the cluster: those of kaput's clients, or everybody's."""
    cluster = world.cluster(step.cluster)
    if step.how in (None, "clients"):
        return _hold_producers(world, cluster.name, step)
    nodes = [node for node in cluster.kafka.nodes.values() if node.running]
    if not nodes:
        raise LabError(f"no node of {cluster.name} runs here")
    began = time.monotonic()
    if step.how == "kill":
        in_parallel(lambda node: node.kill(), nodes)
    else:
        in_parallel(lambda node: node.terminate(_STOP_S), nodes)
    left = [node for node in nodes if node.running]
    if left:
        raise LabError(f"{name_all(left)} still runs {_since(began)} later")
    word = "SIGKILL" if step.how == "kill" else "SIGTERM"
    return f"{name_all(nodes)}: {word}, all gone after {_since(began)}"


def promote(world: PlanWorld, step: PlanStep) -> str:
    """The mirror copies what it can reach within the time, and is stopped for good."""
    assert step.mirror is not None
    mirror = world.mirrors.mirror(step.mirror)
    reached = world.cluster(mirror.from_).answers()
    copied = _await_copied(world, mirror, step.wait_s)
    began = time.monotonic()
    world.mirrors.stop(mirror.name, _STOP_MIRROR_S if reached else _STOP_CUT_OFF_S)
    world.note_switch(mirror.to)
    return f"{copied}; the mirror has ended {_since(began)} later"


def move_producers(world: PlanWorld, step: PlanStep) -> str:
    """Producers continue in the other cluster; waits until each has an acknowledgement there."""
    to = world.cluster(step.to)
    numbers = world.producers_at(but=to.name, among=step.producers)
    if not numbers:
        raise LabError(f"all producers are already in {to.name}")
    free = [number for number in numbers if number not in world.held]
    held = world.clients.hold_producers(free, Hold(step.settle_s)) if free else None
    world.held |= set(free)
    world.note_switch(to.name)
    began = time.monotonic()
    moved = world.clients.move_producers(to.destination, numbers)
    world.held -= set(numbers)
    if moved.late or moved.errors:
        raise LabError("; ".join(moved.late + moved.errors))
    if not moved.reports:
        return f"no producer had anything left to send to {to.name}"

    def silent() -> int:
        return sum(world.clients.acked(each["producer"]) <= each["acked"] for each in moved.reports)

    world.wait(lambda: not silent(), _FIRST_S)
    text = f"{plural(len(moved.reports), 'producer')} continued in {to.name}"
    if held is not None and held.given_up:
        text += f", with the outcome of {held.given_up:,} messages unknown"
    if without := silent():
        return f"{text}; {without:,} of them had no acknowledgement there within {_since(began)}"
    each = "it" if len(moved.reports) == 1 else "each"
    return f"{text}; {each} had its first acknowledgement there within {_since(began)}"


def move_groups(world: PlanWorld, step: PlanStep) -> str:
    """Groups continue in the other cluster, one after the other."""
    to = world.cluster(step.to)
    groups = [group for group in moved_groups(step, world.scenario) if world.group_place(group.id) != to.name]
    if not groups:
        raise LabError(f"all groups are already in {to.name}")
    return "; ".join(move_group(world, group, to, step) for group in groups)


def heal(world: PlanWorld, step: PlanStep) -> str:
    """Ends every active fault, and waits until every cluster answers."""
    healed = world.heal()
    if not healed:
        return "no fault was active"
    began = time.monotonic()
    for cluster in world.clusters.values():
        _await_answer(world, cluster.name)
    return f"ended: {', '.join(healed)}; all clusters answer {_since(began)} later"


def mirror_back(world: PlanWorld, step: PlanStep) -> str:
    """Starts a mirror in the other direction, and waits until it has caught up."""
    assert step.mirror is not None
    mirror = world.mirrors.mirror(step.mirror)
    for name in (mirror.from_, mirror.to):
        _await_answer(world, name)
    begin = world.switched_at.get(mirror.from_)
    if step.begin != "start" and begin is not None:
        world.mirrors.set_start_offsets(mirror.name, begin)
    began = time.monotonic()
    world.mirrors.start(mirror.name)
    world.mirrors.await_ready()
    ready = _since(began)
    copied = _await_copied(world, mirror, step.wait_s, final=False)
    return f"{mirror.name} mirrors after {ready}; {copied}"


def fail_back(world: PlanWorld, step: PlanStep) -> str:
    """A planned switch: producers stop, the rest is copied, all clients move, unless the mirror is late."""
    to = world.cluster(step.to)
    name = step.mirror or next((m.name for m in world.scenario.mirrors if m.to == to.name), None)
    if name is None:
        raise LabError(f"no mirror copies to {to.name}")
    mirror = world.mirrors.mirror(name)
    if missing := world.mirrors.copied(name, step.wait_s):
        raise LabError(f"clients stay in {mirror.from_}: {'; '.join(missing)}")
    fence_step = PlanStep(step="fence", cluster=mirror.from_, settle=step.settle)
    promote_step = PlanStep(step="promote", mirror=name, wait=step.wait)
    producers = PlanStep(step="move-producers", to=to.name, settle=step.settle)
    groups = PlanStep(step="move-groups", to=to.name, positions=step.positions, settle=step.settle)
    parts = [
        fence(world, fence_step),
        promote(world, promote_step),
        move_producers(world, producers),
        move_groups(world, groups),
    ]
    return "; ".join(parts)


STEPS: Mapping[str, Step] = {
    "notice": notice,
    "decide": decide,
    "fence": fence,
    "promote": promote,
    "move-producers": move_producers,
    "move-groups": move_groups,
    "heal": heal,
    "mirror-back": mirror_back,
    "fail-back": fail_back,
}


def _await_answer(world: PlanWorld, name: str) -> None:
    """Waits for the cluster to answer. Raises LabError if it does not in time."""
    cluster = world.cluster(name)
    if not world.wait(cluster.answers, _BACK_S):
        raise LabError(f"{name} does not answer after {_BACK_S:.0f} s: {cluster.why_unreachable()}")


def _hold_producers(world: PlanWorld, cluster: str, step: PlanStep) -> str:
    numbers = world.producers_at(cluster, among=step.producers)
    if not numbers:
        raise LabError(f"no producer that can be held sends to {cluster}")
    held = world.clients.hold_producers(numbers, Hold(step.settle_s))
    world.held |= set(numbers)
    if held.late:
        raise LabError("; ".join(held.late))
    longest = max((each["at_ns"] - each["began_ns"] for each in held.reports), default=0) / 1e9
    return (
        f"{plural(len(numbers), 'producer')} stopped within {_duration(longest)}, "
        f"with the outcome of {held.given_up:,} messages unknown"
    )


def _await_copied(world: PlanWorld, mirror: Mirror, wait_s: float, *, final: bool = True) -> str:
    """Waits until the mirror has caught up and, if `final`, until the groups' positions no longer move;
    returns a sentence. `final` is False while groups still read.
    """
    source = world.cluster(mirror.from_)
    if not source.answers():
        return f"{source.name} does not answer: how much is missing is not known"
    began = time.monotonic()
    missing = world.mirrors.copied(mirror.name, wait_s)
    if missing:
        return "; ".join(missing)
    text = f"everything was copied after {_since(began)}"
    return f"{text}, and {_await_final_positions(world, mirror, wait_s)}" if mirror.groups and final else text


def _await_final_positions(world: PlanWorld, mirror: Mirror, limit_s: float) -> str:
    """Waits until the groups' positions in the target do not move any more; returns a clause."""
    admin = world.cluster(mirror.to).admin
    calm_s = _INTERVALS * max(mirror.offset_sync, mirror.checkpoints) / 1000
    began = changed = time.monotonic()
    last: object = None
    while time.monotonic() - changed < calm_s and time.monotonic() - began < limit_s:
        now = [admin.committed(group) for group in mirror.groups]
        if now != last:
            last, changed = now, time.monotonic()
        if world.aborted.wait(0.1):
            break
    calm, took = time.monotonic() - changed, _duration(changed - began)
    if calm < calm_s:
        least = f"which is less than {_duration(calm_s)}"
        return f"positions of groups may not be final: unchanged for {_duration(calm)}, {least}"
    return f"positions of groups were final within {took} of that (watched for {_duration(calm)} more)"


def _since(began: float) -> str:
    return _duration(time.monotonic() - began)


def _duration(seconds: float) -> str:
    """`2.6 s`; `16 ms` if it is less than 0.1 s."""
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{max(1, round(seconds * 1000))} ms"
