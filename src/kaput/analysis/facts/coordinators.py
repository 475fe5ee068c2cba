"""When the coordinators of transactions were down by faults: meanwhile nothing that times out is aborted.

A coordinator is the leader of a partition of __transaction_state. Where the leaders of that partition are on
record they tell when it was down; else the fault's target may name whose coordinator it hit; else all that is
known is that some broker was down, perhaps the coordinator's.
Its place: after_places.py makes it, questions/hanging_transactions.py asks it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kaput.analysis.facts.inputs import Inputs
from kaput.analysis.facts.outages import Outages, Span
from kaput.analysis.facts.timeline import FaultRow
from kaput.evidence.columns import distinct
from kaput.scenario.coordinators import TRANSACTIONS, partition_of
from kaput.scenario.transactions import transactional_id
from kaput.scenario.vocabulary import NOOP

# Faults that keep a broker from answering anybody from their effect to their heal, and those that never do.
# Of the others it is unknown.
_DOWN = frozenset({"kill", "stop", "pause", "power-loss", "isolate"})
_UP = frozenset(
    {NOOP, "grow", "resize", "delete-records", "recreate", "reassign"}
    | {"delay", "bandwidth", "loss", "reset", "clock"}
)
_NAMED = re.compile(r"transaction-coordinator-of producer (\d+)")
_PARTITIONS = "transaction.state.log.num.partitions"
_MIN_ISR = "transaction.state.log.min.isr"
_KAFKAS_PARTITIONS, _KAFKAS_MIN_ISR = 50, 2


def outages(given: Inputs, recorded: Collection[int]) -> Outages:
    """All of a run. `recorded`: the producers that have transactions on record. Raises EvidenceError."""
    faults = [f for f in given.faults if f.proven and f.brokers and f.fault not in _UP]
    if not faults:
        return Outages()
    ids = _ids(given)
    states = _State(given, faults)
    certain: defaultdict[int | None, list[Span]] = defaultdict(list)
    known = {producer: spans for producer, id_ in ids.items() if (spans := states.down(id_)) is not None}
    for producer, spans in known.items():
        certain[producer] += spans
    certain[None] += _all_down(given, faults)
    for fault in faults:
        if (named := _NAMED.fullmatch(fault.target)) and int(named[1]) not in known and fault.fault in _DOWN:
            certain[int(named[1])].append(_span(given, fault))
    every = {*ids, *recorded}
    return Outages(
        dict(certain),
        [_span(given, fault) for fault in faults],
        frozenset(known),
        next(iter(every)) if len(every) == 1 else None,
    )


def _span(given: Inputs, fault: FaultRow) -> Span:
    assert fault.effective_ns is not None, "what is proven took effect"
    return fault.effective_ns, given.ended_ns if fault.healed_ns is None else fault.healed_ns


def _all_down(given: Inputs, faults: Sequence[FaultRow]) -> Iterator[Span]:
    """When no broker of the scenario was up."""
    brokers = set(given.scenario.cluster.broker_ids()) if given.scenario else set()
    spans = [(_span(given, fault), fault.brokers) for fault in faults if fault.fault in _DOWN]
    for one, two in pairwise(sorted({at_ns for span, _ in spans for at_ns in span})):
        hit = {b for (from_ns, to_ns), hits in spans if from_ns <= one and two <= to_ns for b in hits}
        if brokers and brokers <= hit:
            yield one, two


def _ids(given: Inputs) -> dict[int, str]:
    """By producer its transactional.id: as recorded, else as the scenario has kaput's producers use it."""
    specs = given.scenario.producer_specs() if given.scenario else []
    known = {
        n: transactional_id(n, spec.transactions.id_prefix)
        for n, spec in enumerate(specs)
        if spec.transactions
    }
    return known | dict(sorted(distinct(given.evidence, "transactions", ("producer", "transactional_id"))))


class _State:
    """The leaders of __transaction_state, as far as they are on record."""

    def __init__(self, given: Inputs, faults: Sequence[FaultRow]) -> None:
        config: Mapping[str, Any] = given.scenario.cluster.config if given.scenario else {}
        brokers = given.scenario.cluster.brokers if given.scenario else _KAFKAS_MIN_ISR
        self._min_isr = _number(config.get(_MIN_ISR), min(_KAFKAS_MIN_ISR, brokers))
        self._faults = [(_span(given, fault), set(fault.brokers)) for fault in faults]
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
        """When the coordinator of that transactional.id was down by a fault; None where it is not known."""
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
        """Without a leader, or with one that cannot write down what it decides, as long as a fault is at
        work; with one that a fault has hit, until that is healed.
        """
        helpless = leader == -1 or (isr is not None and len(isr) < self._min_isr)
        for (from_ns, to_ns), brokers in self._faults:
            begin, end = max(from_ns, within[0]), min(to_ns, within[1])
            if begin < end and (helpless or leader in brokers):
                yield begin, end


def _count(partitions: Collection[int]) -> int:
    """How many partitions there are, where the configuration does not say: those on record, if none is
    missing between them, else as many as Kafka makes.
    """
    most = max(partitions, default=-1) + 1
    return most if most and most == len(partitions) else max(most, _KAFKAS_PARTITIONS)


def _number(value: object, default: int) -> int:
    return int(str(value)) if str(value).isdigit() else default
