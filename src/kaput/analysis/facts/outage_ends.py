"""Determines what ended a time without acknowledgements or deliveries: a heal, an election, an ISR change, a
rebalance, or the client itself. Defined in docs/GLOSSARY.md (ended_by). Not here: finding those times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kaput.analysis.facts.leader_history import Change, FaultRow, LeaderHistory
from kaput.core import MS, SECOND, TopicPartition
from kaput.evidence.findings_service import EndedBy
from kaput.scenario.values import target_group
from kaput.scenario.vocabulary import NOOP

SHORTEST_NS = SECOND  # of a standstill
SOON_NS = 5 * SECOND  # clients reconnect, or ask for the new leader, within a second or two
LATE_NS = 15 * SECOND  # after a heal the ISR may need ten seconds to be whole again
CONFIRMED_NS = 2 * SECOND  # a heal works a little before its probe confirms it
Span = tuple[int, int]  # earliest and latest time at which something may have happened (ns)


@dataclass(frozen=True)
class Moments:
    """Times of events that may end a standstill. `given_up`: when messages failed, or a client gave up."""

    heals: Sequence[int] = ()
    elections: Sequence[Span] = ()
    isrs: Sequence[Span] = ()
    rebalances: Sequence[int] = ()
    given_up: Sequence[Span] = ()


def ended_by(from_ns: int, to_ns: int, moments: Moments) -> EndedBy:
    """What ended a time that an acknowledgement or a delivery ended."""
    elected = _last(moments.elections, from_ns, to_ns)
    changes: dict[EndedBy, int | None] = {
        "election": elected,
        "rebalance": max((at for at in moments.rebalances if from_ns <= at <= to_ns), default=None),
        "isr": _last(moments.isrs, from_ns, to_ns),
    }
    healed = max((at for at in moments.heals if from_ns <= at <= to_ns), default=None)
    if healed is not None:
        waited = _waited_for_heal(healed, from_ns, moments.elections)
        if elected is None or to_ns - healed <= (LATE_NS if waited else SOON_NS):
            return "heal"
    for word, at_ns in changes.items():
        if at_ns is not None and to_ns - at_ns <= SOON_NS:
            return word
    if any(to_ns < at <= to_ns + CONFIRMED_NS for at in moments.heals):
        return "heal"
    known = healed is not None or any(at is not None for at in changes.values())
    given_up = any(first <= to_ns and last >= from_ns for first, last in moments.given_up)
    return "client" if known or given_up else "unknown"


def _waited_for_heal(healed_ns: int, from_ns: int, elections: Iterable[Span]) -> bool:
    """Whether no leader was elected shortly before the heal: one elected long before had not helped."""
    elected = _last(elections, from_ns, healed_ns)
    return elected is None or healed_ns - elected > SOON_NS


def _last(spans: Iterable[Span], from_ns: int, to_ns: int) -> int | None:
    """The time of the last span within from_ns to_ns, clamped to that; None for none. Cluster events have a
    resolution of 1 ms.
    """
    inside = [last for first, last in spans if first <= to_ns and last // MS >= from_ns // MS]
    return max((min(max(last, from_ns), to_ns) for last in inside), default=None)


def moments(
    faults: Iterable[FaultRow],
    history: LeaderHistory,
    places: Iterable[TopicPartition],
    group: str | None = None,
    rebalances: Iterable[int] = (),
    given_up: Iterable[Span] = (),
) -> Moments:
    """The moments relevant to acknowledgements of these partitions, or to a group's deliveries from them."""
    changes = [change for place in places for change in history.changes.get(place, ())]
    return Moments(
        sorted(one.healed_ns for one in healing(faults, group) if one.healed_ns is not None),
        [_span(one) for one in changes if one.has_new_leader],
        [_span(one) for one in changes if one.kind == "isr"],
        sorted(rebalances),
        list(given_up),
    )


def healing(faults: Iterable[FaultRow], group: str | None) -> Iterator[FaultRow]:
    """The faults that may hold up acknowledgements, or deliveries to that group."""
    for fault in faults:
        members_of = target_group(fault.target)
        if fault.fault != NOOP and fault.effective_ns is not None and members_of in (None, group):
            yield fault


def _span(change: Change) -> Span:
    return change.at_ns - change.within_ns, change.at_ns
