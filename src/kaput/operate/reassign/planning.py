"""From a cluster and what is wanted of it to moves, or to the sentence why not; changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kaput.cluster.placement import Goal, plan
from kaput.core import TopicPartition
from kaput.errors import UsageError
from kaput.operate.reassign.cluster import View
from kaput.operate.reassign.moves import Move, moves_of
from kaput.scenario.nearest import hint

Sizes = Mapping[tuple[TopicPartition, int], int]


def planned(view: View, sizes: Sizes, topics: Collection[str] | None, goal: Goal) -> list[Move]:
    """The moves that bring these topics (None: all) to the goal. Raises UsageError."""
    known = {topic for topic, _ in view.partitions}
    for name in topics or ():
        if name not in known:
            raise UsageError(f"no topic {name}; {hint(name, sorted(known)) if known else 'there is none'}")
    for broker in sorted(goal.away_from):
        if broker not in view.racks and not any(broker in s.replicas for s in view.partitions.values()):
            raise UsageError(f"no broker {broker}: there are {', '.join(map(str, sorted(view.racks)))}")
    chosen = [place for place in view.partitions if topics is None or place[0] in topics]
    now = {place: state.replicas for place, state in view.partitions.items()}
    return moves_of(plan(view.racks, now, chosen, goal), now, _leaders_sizes(view, sizes))


def rollback(
    view: View, sizes: Sizes, wanted: Mapping[TopicPartition, Sequence[int]], cluster_id: str | None
) -> list[Move]:
    """The moves back to what a file says. Raises UsageError where it is another cluster's, or names what is
    not there.
    """
    if cluster_id is not None and cluster_id != view.cluster_id:
        raise UsageError(f"the file is of cluster {cluster_id}, and this is cluster {view.cluster_id}")
    missing = sorted(set(wanted) - set(view.partitions))
    if missing:
        raise UsageError(f"there is no {missing[0]}, which the file names")
    away = sorted({broker for each in wanted.values() for broker in each} - set(view.racks))
    if away:
        raise UsageError(f"the file has replicas on broker {', '.join(map(str, away))}, which is not there")
    now = {place: state.replicas for place, state in view.partitions.items()}
    changing = {place: each for place, each in wanted.items() if tuple(each) != now[place]}
    return moves_of(changing, now, _leaders_sizes(view, sizes))


def offline(view: View) -> list[str]:
    """Sentences about brokers that are not there, and partitions that nobody leads."""
    gone = sorted({b for state in view.partitions.values() for b in state.replicas} - set(view.racks))
    led = [f"{topic}/{p}" for (topic, p), state in sorted(view.partitions.items()) if state.leader is None]
    said = [f"broker {broker} is down, and has replicas" for broker in gone]
    if led:
        said.append(f"nobody leads {', '.join(led[:3])}" + (f" and {len(led) - 3} more" * (len(led) > 3)))
    return said


def without_leaderless(view: View, moves: Sequence[Move]) -> list[Move]:
    """Those that can be copied at all."""
    return [move for move in moves if view.partitions[move.place].leader is not None]


def refuse_offline(view: View) -> None:
    """Raises UsageError where something is down."""
    if said := offline(view):
        raise UsageError(
            f"{'; '.join(said)}: nothing is moved while a broker is down, unless you say --allow-offline"
        )


def _leaders_sizes(view: View, sizes: Sizes) -> dict[TopicPartition, int]:
    """What there is to copy of each partition: its leader's log, else the longest that is known."""
    known: dict[TopicPartition, int] = {}
    for (place, broker), size in sizes.items():
        state = view.partitions.get(place)
        if state is not None and broker == state.leader:
            known[place] = size
    for (place, _), size in sizes.items():
        known.setdefault(place, size)
    return known
