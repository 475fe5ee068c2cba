"""A reassignment, applied: throttles on, some partitions at a time, throttles off, verified.

What is done and what is not is asked of the cluster each time, never remembered: so a resumed one is a begun
one. Its place: cli/reassign.py shows a plan first; journal.py has what a kill must not take along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kaput.core import TopicPartition
from kaput.errors import LabError
from kaput.operate.reassign import throttles
from kaput.operate.reassign.cluster import Cluster, View
from kaput.operate.reassign.journal import Folder, Journal
from kaput.operate.reassign.moves import Move

PATIENCE_S = 300.0  # without any progress
REFUSED_S = 30.0  # the same where all that is left was refused
VERIFIED_S = 20.0  # for every broker to know what the controller has decided
POLL_S = 0.5
ELECTED_S = 10.0  # for preferred leaders to lead


@dataclass(frozen=True)
class Progress:
    """How far it is: partitions and bytes, done and in all."""

    partitions: int
    of_partitions: int
    copied: int
    of_bytes: int


@dataclass(frozen=True)
class Outcome:
    """What was done. `left_alone`: sentences about partitions that somebody else deleted or changed."""

    moved: int
    copied: int
    seconds: float
    left_alone: Sequence[str] = ()


@dataclass
class _Standing:
    """Where the moves stand: done, under way, to do; and those that are not ours any more."""

    done: list[Move] = field(default_factory=list)
    going: list[Move] = field(default_factory=list)
    waiting: list[Move] = field(default_factory=list)
    alien: dict[TopicPartition, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)  # topics


def begin(
    cluster: Cluster,
    folder: Folder,
    cluster_id: str,
    moves: Sequence[Move],
    throttle: int | None,
    in_flight: int,
) -> Journal:
    """Writes down what is to be done, before anything is; an earlier journal of this cluster is replaced, and
    what it knows of throttles is kept.
    """
    earlier = folder.read(cluster_id)
    brokers, topics = throttles.settings_before(cluster, moves)
    if earlier is not None:
        brokers, topics = {**brokers, **earlier.brokers}, {**topics, **earlier.topics}
    return folder.begin(Journal(cluster_id, moves, throttle, in_flight, brokers, topics, ""))


def apply(
    cluster: Cluster,
    folder: Folder,
    journal: Journal,
    tell: Callable[[Progress], None],
    sleep: Callable[[float], None] = time.sleep,
    allow_offline: bool = False,
) -> Outcome:
    """Does what is not done yet, and returns when all of it is verified; the journal is gone then.

    Raises LabError where nothing went on for five minutes, or was refused: the journal stays, so that it can
    be resumed. `allow_offline`: also where a broker is down and keeps its throttle.
    """
    began = time.monotonic()
    standing = _look(cluster, journal)
    if journal.throttle is not None and (standing.going or standing.waiting):
        throttles.put_on(cluster, journal.throttle, journal.brokers)
    _move(cluster, journal, tell, sleep)
    throttles.take_off(cluster, journal.brokers, journal.topics)
    elect_all(cluster, {move.place for move in journal.moves}, sleep)
    standing = _verified(cluster, journal, sleep, allow_offline)
    folder.end(journal.cluster_id)
    return Outcome(
        len(standing.done),
        sum(move.copied for move in standing.done),
        time.monotonic() - began,
        [f"{place} {why}" for place, why in sorted(standing.alien.items())],
    )


def _move(
    cluster: Cluster, journal: Journal, tell: Callable[[Progress], None], sleep: Callable[[float], None]
) -> None:
    """Keeps so many partitions under way until every one is done."""
    seen, since = -1, time.monotonic()
    held = throttles.Held(cluster, journal.topics)
    refused: Mapping[TopicPartition, str] = {}
    while True:
        standing = _look(cluster, journal)
        if not standing.going and not standing.waiting:
            tell(_progress(journal, standing, {}))
            return
        next_ones = standing.waiting[: max(0, journal.in_flight - len(standing.going))]
        if journal.throttle is not None:
            held.hold(
                [*standing.going, *next_ones], {move.topic for move in journal.moves} - standing.deleted
            )
        if next_ones:
            refused = cluster.reassign({move.place: move.after for move in next_ones})
        progress = _progress(journal, standing, cluster.sizes(move.place for move in standing.going))
        tell(progress)
        moved = progress.partitions + progress.copied
        if moved != seen:
            seen, since = moved, time.monotonic()
        elif time.monotonic() - since > (PATIENCE_S if standing.going or not refused else REFUSED_S):
            raise LabError(_stuck(standing, refused, time.monotonic() - since))
        sleep(POLL_S)


def _look(cluster: Cluster, journal: Journal) -> _Standing:
    """Asked in this order, so that what ends in between is not taken for done before it is."""
    ongoing = cluster.ongoing()
    view = cluster.view()
    standing = _Standing()
    for move in journal.moves:
        state = view.partitions.get(move.place)
        if state is None:
            standing.alien[move.place] = "was deleted meanwhile"
            standing.deleted.add(move.topic)
        elif move.place in ongoing:
            # One that goes elsewhere is told anew; a rollback turns round what it finds half-way.
            (standing.going if ongoing[move.place] == move.after else standing.waiting).append(move)
        elif state.replicas == move.after:
            standing.done.append(move)
        elif set(state.replicas) <= {*move.before, *move.after}:
            standing.waiting.append(move)
        else:
            listed = ", ".join(map(str, state.replicas))
            standing.alien[move.place] = (
                f"has replicas {listed}, neither as before nor as planned: left alone"
            )
    return standing


def _progress(
    journal: Journal, standing: _Standing, sizes: Mapping[tuple[TopicPartition, int], int]
) -> Progress:
    copied = sum(move.copied for move in standing.done)
    for move in standing.going:
        copied += sum(min(move.size, sizes.get((move.place, broker), 0)) for broker in move.adding)
    return Progress(
        len(standing.done), len(journal.moves), copied, sum(move.copied for move in journal.moves)
    )


def _stuck(standing: _Standing, refused: Mapping[TopicPartition, str], for_s: float) -> str:
    left = [*standing.going, *standing.waiting]
    first = left[0]
    why = refused.get(first.place)
    listed = ", ".join(map(str, first.adding)) or "none"
    said = f"; refused: {why}" if why else f"; brokers that are to copy it: {listed}"
    return (
        f"nothing has moved for {for_s:.0f} s: {len(left)} partitions are left, the first is "
        f"{first.topic}/{first.partition}{said}. Perhaps a broker is down, or the throttle is below what is "
        "written; kaput reassign --resume goes on (with another --throttle, if you like)"
    )


def elect_all(
    cluster: Cluster,
    places: Collection[TopicPartition] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Those that are to lead do, of these partitions (None: of all), if they are in sync within the time."""
    limit = time.monotonic() + ELECTED_S
    while waiting := _not_led(cluster.view(), places):
        cluster.elect(waiting)
        if time.monotonic() > limit:
            return  # nothing is lost by another leader; kaput doctor shows it (KP008)
        sleep(POLL_S)


def _not_led(view: View, places: Collection[TopicPartition] | None) -> list[TopicPartition]:
    """Partitions that another than their preferred leader leads, although that one is in sync."""
    return [
        place
        for place, state in view.partitions.items()
        if (places is None or place in places)
        and state.leader not in (None, state.replicas[0])
        and state.replicas[0] in state.isr
    ]


def _verified(
    cluster: Cluster, journal: Journal, sleep: Callable[[float], None], allow_offline: bool
) -> _Standing:
    """How it stands in the end. Raises LabError where it is not as planned, or a throttle is left."""
    limit = time.monotonic() + VERIFIED_S
    while True:
        standing = _look(cluster, journal)
        lacks = _lacking(cluster, journal, standing)
        if not lacks:
            break
        if time.monotonic() > limit:
            raise LabError(f"{lacks}; kaput reassign --resume tries again")
        sleep(POLL_S)
    down = throttles.down(cluster, journal.brokers) if journal.throttle is not None else []
    if down and not allow_offline:
        raise LabError(
            f"broker {', '.join(down)} is down, so that its throttle could not be taken off: when it is back "
            "kaput reassign --resume does that (with --allow-offline: never)"
        )
    return standing


def _lacking(cluster: Cluster, journal: Journal, standing: _Standing) -> str:
    """What is not as it should be, nothing where all is."""
    undone = [*standing.going, *standing.waiting]
    if undone:
        return f"{undone[0].topic}/{undone[0].partition} changed again when everything was done"
    left = throttles.left(cluster, journal.brokers, journal.topics)
    return f"a throttle was not taken off: {left[0]}" if left else ""
