"""The mirrors between clusters: which topics each copies, how far it got, and how it ended; and when clients
that a plan moved to another cluster began to wait.

From the scenario, the manifest and the tables mirror and faults, on the driver. Not here: which messages were
copied (questions/mirrors.py, mirrored_copies.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kaput.analysis.facts.assignments import place_of
from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.runs.names import SHIFT, Homes, Names
from kaput.core import FOREVER_NS, cluster_and_topic, qualified
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.schemas import LAG, countable
from kaput.scenario.fault_kinds import DELETE_TOPICS
from kaput.scenario.model import pipe_producers, source_and_target
from kaput.scenario.vocabulary import NOOP

_FOR_GOOD = {"stopped": "stopped", "killed": "fault"}


@dataclass(frozen=True)
class MirrorFacts:
    """One mirror. `topics`: by number of each copied topic, the number of the copy (None: not in the
    evidence). `drained`: the target had everything at the end; `drained_to`: by place in the target, the
    highest source offset up to which it had everything. `ended_ns`, `ended`: when it ended for good, and why
    (stopped, fault); None while it runs. `broken`: a fault that took effect may explain that it is not
    drained. `started`: whether it ever ran.
    """

    name: str
    source: str
    target: str
    topics: Mapping[int, int | None]
    exactly_once: bool = False
    identity: bool = True
    drained: bool = False
    drained_to: Mapping[int, int] = field(default_factory=dict)
    ended_ns: int | None = None
    ended: str | None = None
    broken: bool = False
    started: bool = True
    restarts: int = 0
    lag_max: int | None = None
    checkpoints: int = 0


@dataclass(frozen=True)
class Translated:
    """Where a group really began in a partition of the target, after it was moved."""

    mirror: str
    group: int
    place: int
    offset: int
    at_ns: int


def homes(given: Inputs) -> Homes | None:
    """Which topics are in which cluster; None if no cluster has a name."""
    named = given.names.clusters
    if not any(named):
        return None
    known = {name: number for number, name in enumerate(dict.fromkeys(named))}
    paths = [
        (known[m.source], known[m.target]) for m in mirrors(given) if {m.source, m.target} <= known.keys()
    ]
    return Homes(np.array([known[name] for name in named], np.int64), sorted(set(paths)))


def mirrors(given: Inputs) -> list[MirrorFacts]:
    """Every mirror of scenario and manifest, in alphabetical order."""
    found, lags = [], lag_over_time(given)
    for name, (source, target) in sorted(_clusters_of(given).items()):
        spec = given.scenario.mirror(name) if given.scenario else None
        events = sorted((e for e in events_of(given) if e["mirror"] == name), key=lambda e: int(e["at_ns"]))
        topics = _topics(given, name, source, target)
        drained = next((m.drained for m in given.manifest.mirrors if m.mirror == name), False)
        ended_ns, ended = _end(events)
        identity = (
            spec.policy == "identity" if spec else all(_same(given.names, *two) for two in topics.items())
        )
        found.append(
            MirrorFacts(
                name,
                source,
                target,
                topics,
                exactly_once=bool(spec and spec.exactly_once),
                identity=identity,
                drained=drained,
                drained_to=_drained_to(events, given.names, target),
                ended_ns=ended_ns,
                ended=ended,
                broken=any(f.proven and f.fault != NOOP for f in given.faults),
                started=spec is None or spec.start == "at-once" or bool(events),
                restarts=max(sum(e["kind"] == "started" for e in events) - 1, 0),
                lag_max=max((lag for (of, _), lag in lags.items() if of == name), default=None),
                checkpoints=sum(e["kind"] == "checkpoint" for e in events),
            )
        )
    return found


def translated(given: Inputs) -> list[Translated]:
    """The translated positions at which groups began after a move, by time."""
    ends, names = _clusters_of(given), given.names
    found = []
    for event in events_of(given):
        source, target = ends.get(event["mirror"], ("", ""))
        place = _place(event, names, target)
        known = event["group"] in given.groups and event["target_offset"] is not None
        if event["kind"] == "translated" and place is not None and known:
            group = given.groups.index(event["group"])
            offset, at_ns = event["target_offset"], _began_ns(given, event, source, place)
            found.append(Translated(event["mirror"], group, place, offset, at_ns))
    return sorted(set(found), key=lambda one: (one.at_ns, one.group, one.place, one.offset, one.mirror))


def _began_ns(given: Inputs, event: Mapping[str, Any], source: str, place: int) -> int:
    """When the group began there: at its first assignment of the partition after its last assignment in the
    source, if recorded; else the time of the mirror's row, which may be a little later.
    """
    assigned = [
        (place_of(e), int(e["at_ns"]))
        for e in given.group_events
        if (e["group"], e["kind"]) == (event["group"], "assigned") and e["at_ns"] <= event["at_ns"]
    ]
    before = max(
        (at for at_, at in assigned if at_ and cluster_and_topic(at_.topic)[0] == source), default=None
    )
    here = given.names.located(place)
    after = [at for at_, at in assigned if at_ == here and (before is None or at > before)]
    return min(after, default=int(event["at_ns"]))


def events_of(given: Inputs) -> Sequence[Mapping[str, Any]]:
    """The mirror table."""
    return given.evidence.rows("mirror")


def _clusters_of(given: Inputs) -> dict[str, tuple[str, str]]:
    """By mirror, its source and target cluster."""
    found = {m.mirror: (m.from_, m.to) for m in given.manifest.mirrors}
    specs = given.scenario.mirrors if given.scenario else []
    return found | {spec.name: (spec.from_, spec.to) for spec in specs}


def _topics(given: Inputs, name: str, source: str, target: str) -> dict[int, int | None]:
    """By topic number, the copy's. From the scenario; for a mirror that it lacks, all topics of the source
    that are also in the target, with or without the source's prefix.
    """
    topics, spec = given.names.topics, given.scenario.mirror(name) if given.scenario else None
    number = {topic: n for n, topic in enumerate(topics)}
    if spec is not None:
        pairs = [(qualified(source, t), qualified(target, spec.copy_of(t))) for t in spec.topics]
        return {number[one]: number.get(copy) for one, copy in pairs if one in number}
    found: dict[int, int | None] = {}
    for topic, n in number.items():
        cluster, own = cluster_and_topic(topic)
        copies = [number.get(qualified(target, copy)) for copy in (own, f"{source}.{own}")]
        if cluster == source and any(copy is not None for copy in copies):
            found[n] = next(copy for copy in copies if copy is not None)
    return found


def _same(names: Names, topic: int, copy: int | None) -> bool:
    return (
        copy is None or cluster_and_topic(names.topics[topic])[1] == cluster_and_topic(names.topics[copy])[1]
    )


def _place(event: Mapping[str, Any], names: Names, target: str) -> int | None:
    topic, partition = event["topic"], event["partition"]
    if topic is None or partition is None or qualified(target, topic) not in names.topics:
        return None
    return int(names.topics.index(qualified(target, topic)) * SHIFT + partition)


def _drained_to(events: Sequence[Mapping[str, Any]], names: Names, target: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for event in events:
        place, offset = _place(event, names, target), event["source_offset"]
        if event["kind"] == "drained" and place is not None and offset is not None:
            found[place] = max(found.get(place, 0), offset)
    return found


def _end(events: Sequence[Mapping[str, Any]]) -> tuple[int | None, str | None]:
    """When the mirror ended for good, and why. At equal times, a start comes last."""
    life = [e for e in events if e["kind"] in ("started", *_FOR_GOOD)]
    last = max(life, key=lambda e: (e["at_ns"], e["kind"] == "started", e["kind"]), default=None)
    if last is None or last["kind"] == "started":
        return None, None
    return last["at_ns"], _FOR_GOOD[last["kind"]]


def lag_over_time(given: Inputs) -> dict[tuple[str, int], int]:
    """By mirror and time (ns), the number of records not mirrored yet, added up over partitions; nothing from
    when producers write to a copy, or a topic is another one: a sample takes all that ever arrived in the
    target for mirrored.
    """
    until = {name: _lag_until(given, name, *ends) for name, ends in _clusters_of(given).items()}
    found: dict[tuple[str, int], float] = {}
    for event in events_of(given):
        if event["kind"] == "lag" and event["value"] is not None and countable(LAG, event["value"]):
            key = event["mirror"], event["at_ns"]
            if event["at_ns"] < until.get(event["mirror"], FOREVER_NS):
                found[key] = found.get(key, 0.0) + event["value"]
    return {key: round(found[key]) for key in sorted(found, key=lambda key: (key[1], key[0]))}


def _lag_until(given: Inputs, name: str, source: str, target: str) -> int:
    """When producers begin to write to a mirror's copies, by the scenario and the plan's rows, or one of its
    topics is deleted and created again (ns).
    """
    scenario, names, topics = given.scenario, given.names.topics, _topics(given, name, source, target)
    copies = {names[copy] for copy in topics.values() if copy is not None}
    every = copies | {names[topic] for topic in topics}
    hit = [(f.injected_ns, f.hit.whole_topic) for f in given.faults if f.fault in DELETE_TOPICS]
    until = [at_ns for at_ns, topic in hit if topic is not None and given.full_name(topic) in every]
    if scenario is not None:
        specs = [*scenario.producer_specs(), *pipe_producers(scenario)]
        first = next(iter(scenario.clusters), None)
        if copies & {qualified(spec.cluster or first, spec.topic) for spec in specs}:
            until.append(0)
        if copies & {qualified(target, spec.topic) for spec in specs}:
            until += [row["started_ns"] for row in plan_steps(given) if row["kind"] == _MOVES[0]]
    return min(until, default=FOREVER_NS)


_MOVES = ("move-producers", "move-groups", "fail-back")


class Moments(NamedTuple):
    """When clients that were moved may have begun to wait (ns). `faults`: on the source's nodes, no later
    than the first step that moved clients; `writes`, `reads`: when producers, and groups, were kept from
    going on there, None if unknown.
    """

    faults: tuple[int, ...] = ()
    writes: int | None = None
    reads: int | None = None

    def of(self, kept_ns: int | None) -> list[int]:
        """The faults and one of the others, by time."""
        return sorted({*self.faults, *([] if kept_ns is None else [kept_ns])})


NO_MOVES = Moments()


def plan_steps(given: Inputs) -> list[dict[str, Any]]:
    """The plan table, by time."""
    return sorted(given.plan, key=lambda row: (row["started_ns"], row["step"]))


def moved_between(given: Inputs) -> tuple[str | None, str | None]:
    """The clusters that clients were moved from and to, by the scenario's plan; without one, those of the
    mirror that ended first, else of the first mirror.
    """
    planned = source_and_target(given.scenario) if given.scenario else None
    if planned is not None:
        return planned
    every = mirrors(given)
    ended = sorted((m for m in every if m.ended_ns is not None), key=lambda m: m.ended_ns or 0)
    chosen = next(iter(ended or every), None)
    return (chosen.source, chosen.target) if chosen else (None, None)


def moments(given: Inputs) -> Moments:
    """The moments of the first move."""
    done = [row for row in plan_steps(given) if row["outcome"] == "done"]
    if not done:
        return NO_MOVES
    moved = min((row["started_ns"] for row in done if row["kind"] in _MOVES), default=FOREVER_NS)
    before = (row for row in done if row["kind"] == "fence" and row["started_ns"] <= moved)
    fenced = next((row["ended_ns"] or row["started_ns"] for row in before), None)
    first: dict[str, int] = {}
    for row in done:
        for kind in _MOVES[:2] if row["kind"] == "fail-back" else (row["kind"],):
            first.setdefault(kind, row["started_ns"])
    source = moved_between(given)[0]
    faults = [
        f.effective_ns for f in given.faults if f.proven and f.fault != NOOP and _hits(given, f, source)
    ]
    hits = sorted(ns for ns in faults if ns is not None and ns <= moved)
    writes, reads = (first.get(kind) for kind in _MOVES[:2])
    return Moments(tuple(hits), writes if fenced is None else fenced, reads)


def _hits(given: Inputs, fault: FaultRow, cluster: str | None) -> bool:
    """Whether a fault hit nodes of a cluster. One on a mirror or a client leaves it as it is."""
    clusters = [*given.scenario.clusters] if given.scenario else []
    if cluster not in clusters:
        return bool(fault.brokers)
    return any(node // 1000 == clusters.index(cluster) for node in fault.brokers)
