"""Finds when transaction coordinators were down because of faults: timed-out transactions then stay open.

A coordinator is the leader of a partition of __transaction_state. If its leaders are on record, they tell
when it was down; else the fault's target may name the producer whose coordinator it hit; else it is only
known that some broker was down. Used by transaction_times.py for questions/transactions.py.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.leader_history import FaultRow
from kaput.analysis.facts.outages import Outages, Span
from kaput.evidence.columns import distinct
from kaput.scenario.cluster import Cluster
from kaput.scenario.pipes import spec_of
from kaput.scenario.transactions import TRANSACTIONS, partition_of, transactional_id
from kaput.scenario.vocabulary import NOOP

# Faults during which a broker answers nobody, and faults that leave it answering. For others it is unknown.
_DOWN = frozenset({"kill", "stop", "pause", "power-loss", "isolate"})
_UP = frozenset(
    {NOOP, "grow", "resize", "delete-records", "recreate", "reassign"}
    | {"delay", "bandwidth", "loss", "reset", "clock"}
)
# Faults that end a process: when started again, it registers anew, and answers nobody until it is unfenced.
# As long as its last session counts, which may be until it times out, it cannot register.
_ENDS_PROCESS = frozenset({"kill", "stop", "power-loss"})
_TARGETED_PRODUCER = re.compile(r"transaction-coordinator-of producer (\d+)")
_PARTITIONS = "transaction.state.log.num.partitions"
_MIN_ISR = "transaction.state.log.min.isr"
_DEFAULT_PARTITIONS, _DEFAULT_MIN_ISR = 50, 2


def outages(given: Inputs, recorded: Collection[int]) -> Outages:
    """The coordinator outages of a run. `recorded`: producers with recorded transactions. Raises
    EvidenceError.
    """
    faults = [f for f in given.faults if f.proven and f.brokers and f.fault not in _UP]
    if not faults:
        return Outages()
    ids = _ids(given)
    down = [(_span(given, fault), fault) for fault in faults]
    states = _CoordinatorLeaders(given, down)
    certain: defaultdict[int | None, list[Span]] = defaultdict(list)
    known = {producer: spans for producer, id_ in ids.items() if (spans := states.down(id_)) is not None}
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
        [span for span, _ in down],
        frozenset(known),
        next(iter(every)) if len(every) == 1 else None,
    )


def _span(given: Inputs, fault: FaultRow) -> Span:
    """When its brokers answered nobody because of it."""
    assert fault.effective_ns is not None, "what is proven took effect"
    if fault.healed_ns is None:
        return fault.effective_ns, given.ended_ns
    back = [fault.healed_ns]
    if fault.fault in _ENDS_PROCESS:
        back += [_unfenced_ns(given, broker, fault.healed_ns) for broker in fault.brokers]
    return fault.effective_ns, max(back)


def _unfenced_ns(given: Inputs, broker: int, since_ns: int) -> int:
    """When it was next unfenced; `since_ns` if that is not on record."""
    found = (
        row["at_ns"]
        for row in given.cluster_events
        if row["kind"] == "unfenced" and row["broker"] == broker and row["at_ns"] >= since_ns
    )
    return min(found, default=since_ns)


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
    specs = given.scenario.producer_specs() if given.scenario else []
    known = {
        n: transactional_id(n, spec.transactions.id_prefix)
        for n, spec in enumerate(specs)
        if spec.transactions
    }
    return known | dict(sorted(distinct(given.evidence, "transactions", ("producer", "transactional_id"))))


class _CoordinatorLeaders:
    """The recorded leaders of __transaction_state."""

    def __init__(self, given: Inputs, down: Sequence[tuple[Span, FaultRow]]) -> None:
        # Of several clusters, the topic is named with its cluster: their coordinators are not looked up.
        config: Mapping[str, Any] = given.scenario.cluster.config if given.scenario else {}
        brokers = given.scenario.cluster.brokers if given.scenario else _DEFAULT_MIN_ISR
        self._min_isr = _number(config.get(_MIN_ISR), min(_DEFAULT_MIN_ISR, brokers))
        self._faults = [(span, set(fault.brokers)) for span, fault in down]
        self._until_ns = given.ended_ns
        self._events: defaultdict[int, list[Mapping[str, Any]]] = defaultdict(list)
        for row in given.cluster_events:
            if (
                row["kind"] in ("leader", "isr")
                and row["topic"] == TRANSACTIONS
                and row["partition"] is not None
            ):
                self._events[row["partition"]].append(row)
        self._count = _number(config.get(_PARTITIONS), 0) or _count(self._events)

    def down(self, id_: str) -> list[Span] | None:
        """When faults took down the coordinator of a transactional.id; None if its leaders are unknown."""
        rows = sorted(self._events.get(partition_of(id_, self._count), ()), key=lambda row: row["at_ns"])
        if not any(row["kind"] == "leader" and row["leader"] is not None for row in rows):
            return None
        found: list[Span] = []
        leader = isr = None
        ends = [*(row["at_ns"] for row in rows[1:]), self._until_ns]
        for row, end_ns in zip(rows, ends, strict=True):
            leader = row["leader"] if row["leader"] is not None else leader
            isr = row["isr"] if row["isr"] is not None else isr
            found += self._down(leader, isr, (row["at_ns"], end_ns))
        return found

    def _down(self, leader: int | None, isr: Sequence[int] | None, within: Span) -> Iterator[Span]:
        """The parts of `within` in which the coordinator was down: a fault was in effect, and there was no
        leader, the ISR was too small to write decisions, or the fault hit the leader.
        """
        helpless = leader == -1 or (isr is not None and len(isr) < self._min_isr)
        for (from_ns, to_ns), brokers in self._faults:
            begin, end = max(from_ns, within[0]), min(to_ns, within[1])
            if begin < end and (helpless or leader in brokers):
                yield begin, end


def _count(partitions: Collection[int]) -> int:
    """The number of partitions if not configured: those on record if their numbers have no gap, else at least
    Kafka's default.
    """
    most = max(partitions, default=-1) + 1
    return most if most and most == len(partitions) else max(most, _DEFAULT_PARTITIONS)


def _number(value: object, default: int) -> int:
    return int(str(value)) if str(value).isdigit() else default
