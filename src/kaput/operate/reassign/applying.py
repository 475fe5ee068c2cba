"""Applies a reassignment: sets throttles, moves some partitions at a time, removes throttles, verifies.

Progress is always read from the cluster and never stored, so resuming is the same as starting. Its place:
cli/reassign.py shows a plan first; journal.py stores what must survive a kill.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.cluster.admin.reassignments import ClusterView, Configs, ReassignmentClient
from kaput.cluster.admin.requests import THROTTLED_RATES as RATES
from kaput.cluster.admin.requests import THROTTLED_REPLICAS as REPLICAS
from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.operate.reassign.journal import Folder, MoveJournal
from kaput.operate.reassign.moves import Move


def copying(moves: Iterable[Move]) -> list[Move]:
    """The moves that copy data; others need no throttle."""
    return [move for move in moves if move.adding]


def read_settings(cluster: ReassignmentClient, moves: Sequence[Move]) -> tuple[Configs, Configs]:
    """The throttle settings of brokers and topics, to restore later."""
    brokers = {str(broker) for move in copying(moves) for broker in (*move.before, *move.after)}
    topics = sorted({move.topic for move in copying(moves)})
    alive = sorted(brokers & _alive(cluster.view()))
    return cluster.configs("broker", alive, RATES), cluster.configs("topic", topics, REPLICAS)


def _alive(view: ClusterView) -> set[str]:
    return set(map(str, view.racks))


def set_rate(cluster: ReassignmentClient, rate: int, brokers: Configs) -> None:
    """Limits copying to `rate` bytes per second from and to each broker, for all copies together."""
    alive = brokers.keys() & _alive(cluster.view())
    cluster.configure("broker", {name: dict.fromkeys(RATES, str(rate)) for name in alive})


class ThrottledReplicas:
    """Applies the throttles to the replicas of active moves, and updates them when that set changes."""

    def __init__(self, cluster: ReassignmentClient, before: Configs) -> None:
        self._cluster, self._before = cluster, before
        self._set: dict[str, Mapping[str, str | None]] = {}  # what was set; empty after a restart

    def update(self, active: Sequence[Move], existing: Collection[str]) -> None:
        """Throttles only these moves from now on; `existing`: topics that exist."""
        wanted: dict[str, Mapping[str, str | None]] = {**self._before, **_replicas(copying(active))}
        changed = {
            topic: config
            for topic, config in wanted.items()
            if topic in existing and self._set.get(topic) != config
        }
        self._cluster.configure("topic", changed)
        self._set |= changed


def restore_settings(cluster: ReassignmentClient, brokers: Configs, topics: Configs) -> None:
    """Restores all settings; a broker that is down keeps its throttle until it is back."""
    alive = _alive(cluster.view())
    cluster.configure("broker", {name: config for name, config in brokers.items() if name in alive})
    existing = {topic for topic, _ in cluster.view().partitions}
    cluster.configure("topic", {name: config for name, config in topics.items() if name in existing})


def unreachable_brokers(cluster: ReassignmentClient, brokers: Configs) -> list[str]:
    """Brokers that are down, and so cannot be configured now."""
    return sorted(brokers.keys() - _alive(cluster.view()))


def differences(cluster: ReassignmentClient, brokers: Configs, topics: Configs) -> list[str]:
    """Sentences about settings that differ from before."""
    view = cluster.view()
    alive, existing = _alive(view), {topic for topic, _ in view.partitions}
    now_brokers = cluster.configs("broker", [name for name in brokers if name in alive], RATES)
    now_topics = cluster.configs("topic", [name for name in topics if name in existing], REPLICAS)
    return [
        f"{kind} {name}: {key}={value}"
        for kind, now, before in (("broker", now_brokers, brokers), ("topic", now_topics, topics))
        for name, config in now.items()
        for key, value in config.items()
        if value != before[name].get(key)
    ]


def _replicas(moves: Iterable[Move]) -> dict[str, dict[str, str | None]]:
    """The settings by topic: replicas to read from, and replicas to write."""
    read: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    for move in moves:
        read.setdefault(move.topic, []).extend(f"{move.partition}:{broker}" for broker in move.before)
        written.setdefault(move.topic, []).extend(f"{move.partition}:{broker}" for broker in move.adding)
    return {
        topic: dict(zip(REPLICAS, (",".join(read[topic]), ",".join(written[topic])), strict=True))
        for topic in read
    }


STALL_TIMEOUT_S = 300.0  # without any progress
REFUSED_TIMEOUT_S = 30.0  # without any progress, if all remaining partitions were rejected
VERIFY_TIMEOUT_S = 20.0  # for every broker to learn the controller's decisions
POLL_S = 0.5
ELECTION_TIMEOUT_S = 10.0  # for preferred leaders to be elected


@dataclass(frozen=True)
class MoveProgress:
    """Partitions and bytes, done and in total."""

    partitions: int
    of_partitions: int
    copied: int
    of_bytes: int


@dataclass(frozen=True)
class Outcome:
    """The result. `left_alone`: sentences about partitions that others deleted or changed meanwhile."""

    moved: int
    seconds: float
    left_alone: Sequence[str] = ()


@dataclass
class _MoveStates:
    """The moves by state: done, active, waiting; `foreign`: changed by others, with the reason."""

    done: list[Move] = field(default_factory=list)
    active: list[Move] = field(default_factory=list)
    waiting: list[Move] = field(default_factory=list)
    foreign: dict[TopicPartition, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)  # topics


def begin(
    cluster: ReassignmentClient,
    folder: Folder,
    cluster_id: str,
    moves: Sequence[Move],
    throttle: int | None,
    in_flight: int,
) -> MoveJournal:
    """Writes the journal before anything changes; keeps the throttle settings of an earlier one."""
    earlier = folder.read(cluster_id)
    brokers, topics = read_settings(cluster, moves)
    if earlier is not None:
        brokers, topics = {**brokers, **earlier.brokers}, {**topics, **earlier.topics}
    return folder.begin(MoveJournal(cluster_id, moves, throttle, in_flight, brokers, topics, ""))


def apply(
    cluster: ReassignmentClient,
    folder: Folder,
    journal: MoveJournal,
    on_progress: Callable[[MoveProgress], None],
    allow_offline: bool = False,
) -> Outcome:
    """Applies the remaining moves; returns when everything is verified and the journal is deleted. Raises
    LabError after five minutes without progress, or if moves are rejected: the journal stays, so that it can
    be resumed. `allow_offline`: succeed even if a broker is down and keeps its throttle.
    """
    began = time.monotonic()
    states = _read_states(cluster, journal)
    if journal.throttle is not None and (states.active or states.waiting):
        set_rate(cluster, journal.throttle, journal.brokers)
    _move(cluster, journal, on_progress)
    restore_settings(cluster, journal.brokers, journal.topics)
    elect_all(cluster, {move.topic_partition for move in journal.moves})
    states = _verify(cluster, journal, allow_offline)
    folder.end(journal.cluster_id)
    return Outcome(
        len(states.done),
        time.monotonic() - began,
        [f"{place} {why}" for place, why in sorted(states.foreign.items())],
    )


def _move(
    cluster: ReassignmentClient, journal: MoveJournal, on_progress: Callable[[MoveProgress], None]
) -> None:
    """Keeps `in_flight` partitions active until all are done."""
    seen, since = -1, time.monotonic()
    throttled = ThrottledReplicas(cluster, journal.topics)
    refused: Mapping[TopicPartition, str] = {}
    while True:
        states = _read_states(cluster, journal)
        if not states.active and not states.waiting:
            on_progress(_progress(journal, states, {}))
            return
        next_ones = states.waiting[: max(0, journal.in_flight - len(states.active))]
        if journal.throttle is not None:
            throttled.update(
                [*states.active, *next_ones], {move.topic for move in journal.moves} - states.deleted
            )
        if next_ones:
            refused = cluster.reassign({move.topic_partition: move.after for move in next_ones})
        progress = _progress(journal, states, cluster.sizes(move.topic_partition for move in states.active))
        on_progress(progress)
        moved = progress.partitions + progress.copied
        if moved != seen:
            seen, since = moved, time.monotonic()
        elif time.monotonic() - since > (
            STALL_TIMEOUT_S if states.active or not refused else REFUSED_TIMEOUT_S
        ):
            raise LabError(_stall_message(states, refused, time.monotonic() - since))
        time.sleep(POLL_S)


def _read_states(cluster: ReassignmentClient, journal: MoveJournal) -> _MoveStates:
    """Reads the state of each move: ongoing reassignments first, so that no move counts as done too early."""
    ongoing = cluster.ongoing()
    view = cluster.view()
    states = _MoveStates()
    for move in journal.moves:
        state = view.partitions.get(move.topic_partition)
        if state is None:
            states.foreign[move.topic_partition] = "was deleted meanwhile"
            states.deleted.add(move.topic)
        elif move.topic_partition in ongoing:
            # A move to other replicas is replaced; a rollback reverses active moves.
            (states.active if ongoing[move.topic_partition] == move.after else states.waiting).append(move)
        elif state.replicas == move.after:
            states.done.append(move)
        elif set(state.replicas) <= {*move.before, *move.after}:
            states.waiting.append(move)
        else:
            listed = ", ".join(map(str, state.replicas))
            states.foreign[move.topic_partition] = (
                f"has replicas {listed}, neither the old nor the planned ones: not changed"
            )
    return states


def _progress(
    journal: MoveJournal, states: _MoveStates, sizes: Mapping[tuple[TopicPartition, int], int]
) -> MoveProgress:
    copied = sum(move.copied for move in states.done)
    for move in states.active:
        copied += sum(min(move.size, sizes.get((move.topic_partition, broker), 0)) for broker in move.adding)
    return MoveProgress(
        len(states.done), len(journal.moves), copied, sum(move.copied for move in journal.moves)
    )


def _stall_message(states: _MoveStates, refused: Mapping[TopicPartition, str], for_s: float) -> str:
    left = [*states.active, *states.waiting]
    first = left[0]
    why = refused.get(first.topic_partition)
    listed = ", ".join(map(str, first.adding)) or "none"
    reason = f"; rejected: {why}" if why else f"; brokers to copy it to: {listed}"
    return (
        f"no progress for {for_s:.0f} s: {len(left)} partitions are left, the first is "
        f"{first.topic}/{first.partition}{reason}. Perhaps a broker is down, or the throttle is below the "
        "rate of new writes; kaput reassign --resume continues (with another --throttle if needed)"
    )


def elect_all(cluster: ReassignmentClient, places: Collection[TopicPartition] | None = None) -> None:
    """Elects preferred leaders of these partitions (None: of all) that are in sync within the time limit."""
    limit = time.monotonic() + ELECTION_TIMEOUT_S
    while waiting := _to_elect(cluster.view(), places):
        cluster.elect(waiting)
        if time.monotonic() > limit:
            return  # harmless; kaput doctor shows it (KP008)
        time.sleep(POLL_S)


def _to_elect(view: ClusterView, places: Collection[TopicPartition] | None) -> list[TopicPartition]:
    """Partitions not led by their preferred leader although it is in sync."""
    return [
        place
        for place, state in view.partitions.items()
        if (places is None or place in places)
        and state.leader not in (None, state.replicas[0])
        and state.replicas[0] in state.isr
    ]


def _verify(cluster: ReassignmentClient, journal: MoveJournal, allow_offline: bool) -> _MoveStates:
    """Waits for the final states. Raises LabError if they differ from the plan or a throttle remains."""
    limit = time.monotonic() + VERIFY_TIMEOUT_S
    while True:
        states = _read_states(cluster, journal)
        difference = _difference(cluster, journal, states)
        if not difference:
            break
        if time.monotonic() > limit:
            raise LabError(f"{difference}; kaput reassign --resume tries again")
        time.sleep(POLL_S)
    down = unreachable_brokers(cluster, journal.brokers) if journal.throttle is not None else []
    if down and not allow_offline:
        raise LabError(
            f"broker {', '.join(down)} is down, so its throttle could not be removed: once it is back, run "
            "kaput reassign --resume (--allow-offline ignores it)"
        )
    return states


def _difference(cluster: ReassignmentClient, journal: MoveJournal, states: _MoveStates) -> str:
    """A sentence about the first difference from the plan; empty if there is none."""
    undone = [*states.active, *states.waiting]
    if undone:
        return f"{undone[0].topic}/{undone[0].partition} changed again after everything was done"
    left = differences(cluster, journal.brokers, journal.topics)
    return f"a throttle was not removed: {left[0]}" if left else ""
