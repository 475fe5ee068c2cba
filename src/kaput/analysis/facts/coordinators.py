"""Finds when transaction coordinators were down because of faults: timed-out transactions then stay open.

A coordinator is the leader of a partition of __transaction_state. If its leaders are on record, they tell
when it was down; else the fault's target may name the producer whose coordinator it hit; else it is only
known that some broker was down. Also the stalls of last stable offsets, for questions/transactions.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.leader_history import ENDS_PROCESS
from kaput.core import MS, TopicPartition
from kaput.evidence.fault_rows import FaultRow
from kaput.evidence.reading import distinct
from kaput.evidence.schemas import STABLE, WATERMARK
from kaput.scenario.cluster import Cluster
from kaput.scenario.fault_kinds import DELETE_TOPICS, TAKE_NOTHING
from kaput.scenario.model import pipe_producers, spec_of
from kaput.scenario.producers import TRANSACTIONS, partition_of, transactional_id
from kaput.scenario.vocabulary import KAFKAS_TIMEOUT_MS

# Faults during which a broker answers nobody, and faults that leave it answering. For others it is unknown.
_DOWN = frozenset({"kill", "stop", "pause", "power-loss", "disk-loss", "isolate"})
_UP = frozenset(
    {*TAKE_NOTHING, "resize", "delete-records", *DELETE_TOPICS}
    | {"delay", "bandwidth", "loss", "reset", "clock"}
)
_TARGETED_PRODUCER = re.compile(r"transaction-coordinator-of producer (\d+)")
_PARTITIONS = "transaction.state.log.num.partitions"
_MIN_ISR = "transaction.state.log.min.isr"
_DEFAULT_PARTITIONS, _DEFAULT_MIN_ISR = 50, 2


def outages(given: Inputs, recorded: Collection[int]) -> Outages:
    """The coordinator outages of a run. `recorded`: producers with transactions. Raises EvidenceError."""
    # What becomes of single requests of clients keeps no coordinator from aborting what has timed out.
    faults = [f for f in given.faults_of_nodes if f.proven and f.brokers and f.fault not in _UP]
    if not faults:
        return Outages()
    ids = _ids(given)
    spans_of_faults = [_spans(given, fault) for fault in faults]
    down = [(span, fault) for (span, _), fault in zip(spans_of_faults, faults, strict=True)]
    certain: defaultdict[int | None, list[Span]] = defaultdict(list)
    known = dict(_recorded(given, down, ids))
    for producer, spans in known.items():
        certain[producer] += spans
    for cluster, producers in _producers_by_cluster(given, ids):
        spans = list(_all_down(cluster, down))
        for each in producers:
            certain[each] += spans
    for span, fault in down:
        if (
            (targeted := _TARGETED_PRODUCER.fullmatch(fault.target))
            and int(targeted[1]) not in known
            and fault.fault in _DOWN
        ):
            certain[int(targeted[1])].append(span)
    every = {*ids, *recorded}
    return Outages(
        dict(certain),
        [possible for _, possible in spans_of_faults],
        frozenset(known),
        next(iter(every)) if len(every) == 1 else None,
    )


def _spans(given: Inputs, fault: FaultRow) -> tuple[Span, Span]:
    """When its brokers answered nobody because of it, and when they may have: to the end, if it ended a
    process that is not known to serve again.
    """
    assert fault.effective_ns is not None, "what is proven took effect"
    if fault.healed_ns is None:
        return (fault.effective_ns, given.ended_ns), (fault.effective_ns, given.ended_ns)
    ended = fault.brokers if fault.fault in ENDS_PROCESS else ()
    unfenced = [_unfenced_ns(given, fault, broker) for broker in ended]
    back_ns = max([fault.healed_ns, *(at_ns for at_ns in unfenced if at_ns is not None)])
    may_ns = given.ended_ns if None in unfenced else back_ns
    return (fault.effective_ns, back_ns), (fault.effective_ns, may_ns)


def _unfenced_ns(given: Inputs, fault: FaultRow, broker: int) -> int | None:
    """When it was next unfenced: since it was started, if that is on record, else since the heal began."""
    assert fault.effective_ns is not None and fault.healed_ns is not None
    mine = [row for row in given.cluster_events if row["broker"] == broker]
    started = [
        row["at_ns"] for row in mine if row["kind"] == "started" and row["at_ns"] >= fault.effective_ns
    ]
    began_ns = fault.healed_ns if fault.heal_began_ns is None else fault.heal_began_ns
    since_ns = min(started, default=began_ns)
    unfenced = (row["at_ns"] for row in mine if row["kind"] == "unfenced" and row["at_ns"] >= since_ns)
    return min(unfenced, default=None)


def _producers_by_cluster(given: Inputs, ids: Collection[int]) -> Iterator[tuple[Cluster, list[int | None]]]:
    """Each cluster with the producers whose coordinators are in it; None stands for all. Which cluster a
    plan had moved a producer to is not known here.
    """
    scenario = given.scenario
    if scenario is None:
        return
    if not scenario.clusters:
        yield scenario.cluster, [None]
    elif not scenario.plan:
        of = {n: spec.cluster for n in ids if (spec := spec_of(scenario, n)) is not None}
        for name, cluster in scenario.clusters.items():
            yield cluster, [n for n, own in of.items() if own == name]


def _all_down(cluster: Cluster, down: Sequence[tuple[Span, FaultRow]]) -> Iterator[Span]:
    """When no broker of the cluster was up."""
    brokers = set(cluster.broker_ids())
    spans = [(span, fault.brokers) for span, fault in down if fault.fault in _DOWN]
    for one, two in pairwise(sorted({at_ns for span, _ in spans for at_ns in span})):
        hit = {b for (from_ns, to_ns), hits in spans if from_ns <= one and two <= to_ns for b in hits}
        if brokers <= hit:
            yield one, two


def _ids(given: Inputs) -> dict[int, str]:
    """By producer its transactional.id: as recorded, else as kaput's producers derive it."""
    known = {
        n: transactional_id(n, spec.transactions.id_prefix)
        for n, spec in enumerate(given.producers)
        if spec.transactions
    }
    return known | dict(sorted(distinct(given.evidence, "transactions", ("producer", "transactional_id"))))


def _recorded(
    given: Inputs, down: Sequence[tuple[Span, FaultRow]], ids: Mapping[int, str]
) -> Iterator[tuple[int, list[Span]]]:
    """When coordinators were down whose leaders are on record, by producer: a fault was in effect, and there
    was no leader, the ISR was too small to write decisions, or the fault hit the leader.
    """
    # Of several clusters, the topic is named with its cluster: their coordinators are not looked up.
    config: Mapping[str, Any] = given.scenario.cluster.config if given.scenario else {}
    brokers = given.scenario.cluster.brokers if given.scenario else _DEFAULT_MIN_ISR
    min_isr = _number(config.get(_MIN_ISR), min(_DEFAULT_MIN_ISR, brokers))
    events: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(given.cluster_events, key=lambda row: int(row["at_ns"])):
        if row["kind"] in ("leader", "isr") and row["topic"] == TRANSACTIONS and row["partition"] is not None:
            events[row["partition"]].append(row)
    count = _number(config.get(_PARTITIONS), 0) or _count(events)
    for producer, id_ in ids.items():
        rows = events.get(partition_of(id_, count), [])
        if not any(one["kind"] == "leader" and one["leader"] is not None for one in rows):
            continue
        found: list[Span] = []
        leader = isr = None
        ends = [*(change["at_ns"] for change in rows[1:]), given.ended_ns]
        for change, end_ns in zip(rows, ends, strict=True):
            leader = change["leader"] if change["leader"] is not None else leader
            isr = change["isr"] if change["isr"] is not None else isr
            helpless = leader == -1 or (isr is not None and len(isr) < min_isr)
            both = ((max(span[0], change["at_ns"]), min(span[1], end_ns), fault) for span, fault in down)
            found += [(at, to) for at, to, one in both if at < to and (helpless or leader in one.brokers)]
        yield producer, found


def _count(partitions: Collection[int]) -> int:
    """The number of partitions if not configured: those on record if their numbers have no gap, else at least
    Kafka's default.
    """
    most = max(partitions, default=-1) + 1
    return most if most and most == len(partitions) else max(most, _DEFAULT_PARTITIONS)


def _number(value: object, default: int) -> int:
    return int(str(value)) if str(value).isdecimal() else default


Span = tuple[int, int]  # from and to (ns)


@dataclass(frozen=True)
class Outages:
    """The outages of a run. `certain`: by producer, when its coordinator was down (None: all coordinators);
    `recorded`: producers whose coordinator is known; `possible`: when those of the others may have been down.
    `only`: the only transactional producer, if there is exactly one.
    """

    certain: Mapping[int | None, Sequence[Span]] = field(default_factory=dict)
    possible: Sequence[Span] = ()
    recorded: Collection[int] = ()
    only: int | None = None

    def certain_ns(self, producer: int | None, within: Span) -> int:
        """How much of that time the producer's coordinator was certainly down."""
        return _length_ns(self._certain(producer), within)

    def possible_ns(self, producer: int | None, within: Span) -> int:
        """How much of that time the producer's coordinator may have been down."""
        producer = self.only if producer is None else producer
        if producer in self.recorded:
            return self.certain_ns(producer, within)
        every = self.certain.values() if producer is None else [self._certain(producer)]
        return _length_ns([*self.possible, *(span for spans in every for span in spans)], within)

    def _certain(self, producer: int | None) -> list[Span]:
        producer = self.only if producer is None else producer
        mine = self.certain.get(producer, ()) if producer is not None else ()
        return [*self.certain.get(None, ()), *mine]


def _length_ns(spans: Iterable[Span], within: Span) -> int:
    """How much of that time the union of the spans covers."""
    total, at_ns = 0, within[0]
    for from_ns, to_ns in sorted(spans):
        begin, end = max(from_ns, at_ns), min(to_ns, within[1])
        total, at_ns = total + max(0, end - begin), max(at_ns, end)
    return total


_CLEANUP = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_CLEANUP_MS, _MARKERS_MS = 10_000, 5_000


def limits(given: Inputs, recorded: Collection[int]) -> Limits:
    """How long a last stable offset may stall. `recorded`: as for `outages`. Raises EvidenceError."""
    timeout_ns = _timeout_ns(given, recorded)
    late = any(one.ns > timeout_ns for one in find(given.samples))
    return Limits(timeout_ns, outages(given, recorded) if late else Outages())


def _timeout_ns(given: Inputs, recorded: Collection[int]) -> int:
    """The longest timeout of any transactional producer, including pipes. If neither scenario nor evidence
    tells which are transactional, of any producer.
    """
    if given.scenario is None:
        return KAFKAS_TIMEOUT_MS * MS
    specs = given.scenario.producer_specs()
    transactional = [
        spec
        for producer, spec in enumerate(specs)
        if spec.transactions is not None or "transactional.id" in spec.config or producer in recorded
    ]
    transactional += pipe_producers(given.scenario)
    return max(spec.transaction_timeout_ms for spec in transactional or specs) * MS


def abort_grace_ns(given: Inputs, topic: str) -> int:
    """How much later the coordinator may notice that a transaction has timed out, and abort it."""
    interval = str(given.scenario.cluster_of_topic(topic).config.get(_CLEANUP)) if given.scenario else ""
    return ((int(interval) if interval.isdecimal() else _CLEANUP_MS) + _MARKERS_MS) * MS


class StalledOffset(NamedTuple):
    """A last stable offset that did not move from one sample to another (ns)."""

    place: TopicPartition
    offset: int
    from_ns: int
    to_ns: int

    @property
    def ns(self) -> int:
        """The duration."""
        return self.to_ns - self.from_ns


def find(samples: Iterable[Mapping[str, Any]]) -> list[StalledOffset]:
    """All stalls longer than 0, by place and time. A sample whose high watermark is not above the offset does
    not end a stall: the watermark dips under a new leader, and the last stable offset is never above it.
    """
    found: list[StalledOffset] = []
    for place, (stable, watermark) in sorted(by_place(samples).items()):
        current: StalledOffset | None = None
        for at_ns in sorted(stable.keys() & watermark.keys()):
            if current is not None and watermark[at_ns] <= current.offset:
                continue
            if current is None or stable[at_ns] != current.offset:
                held = stable[at_ns] < watermark[at_ns]
                current = StalledOffset(place, stable[at_ns], at_ns, at_ns) if held else None
                continue
            if current.ns:
                found.pop()
            current = current._replace(to_ns=at_ns)
            found.append(current)
    return found


def longest(found: Iterable[StalledOffset]) -> list[StalledOffset]:
    """The longest stall at each offset. There may be several, if a deposed leader answered in between."""
    by_offset: dict[tuple[TopicPartition, int], StalledOffset] = {}
    for one in sorted(found, key=lambda one: one.ns):
        by_offset[one.place, one.offset] = one
    return list(by_offset.values())


def by_place(
    samples: Iterable[Mapping[str, Any]],
) -> Mapping[TopicPartition, tuple[dict[int, int], dict[int, int]]]:
    """By partition: last stable offset by time, and high watermark by time, of rows of samples."""
    found: defaultdict[TopicPartition, tuple[dict[int, int], dict[int, int]]] = defaultdict(lambda: ({}, {}))
    for row in samples:
        place = _place(dict(row["labels"] or ())) if row["name"] in (STABLE, WATERMARK) else None
        if place is not None:
            found[place][row["name"] == WATERMARK][row["at_ns"]] = round(row["value"])
    return found


def _place(labels: Mapping[str, str | None]) -> TopicPartition | None:
    """The partition in a sample's labels, if any."""
    topic, partition = labels.get("topic"), labels.get("partition") or ""
    known = topic is not None and re.fullmatch("[0-9]{1,9}", partition)
    return TopicPartition(topic, int(partition)) if topic is not None and known else None


@dataclass(frozen=True)
class Limits:
    """How long a transaction may stay open (ns), and when its coordinator was down."""

    timeout_ns: int = KAFKAS_TIMEOUT_MS * 1_000_000
    outages: Outages = field(default_factory=Outages)
