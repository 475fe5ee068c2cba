"""The account of one run: everything that was counted, on the driver, before it is judged and reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from kaput.analysis.deposed import Deposed, Under
from kaput.analysis.examples import Case, as_cases, first
from kaput.analysis.faults import Attempted, Reach, Span
from kaput.analysis.names import Names, Place
from kaput.analysis.partitions import Partitions
from kaput.analysis.questions import beginnings as late
from kaput.analysis.questions import stuck as waits
from kaput.analysis.rebalances import Rebalances
from kaput.analysis.replicas import Seen
from kaput.analysis.tally import Tally
from kaput.analysis.timeline import FOREVER_NS, Timeline
from kaput.verdict.facts import Circumstances

ACK, END_TO_END = -2, -1  # of `Account.latencies`; a group's index stands for its own end-to-end latency


class Latency(NamedTuple):
    """Percentiles 50, 99 and 99.9, and the longest, in microseconds."""

    p: Sequence[float]
    longest_us: int


class LossRow(NamedTuple):
    """Lost messages of one kind, and their first and last acknowledgement (ns)."""

    producer: int
    topic: int
    cause: str
    messages: int
    known: Circumstances
    fault: str | None
    first_ns: int | None
    last_ns: int | None


class VanishedRow(NamedTuple):
    """Messages of one kind that a group was delivered and that are gone."""

    group: int
    producer: int
    topic: int
    cause: str
    messages: int
    known: Circumstances


class ConsequenceRow(NamedTuple):
    """Cases of one anomaly of a group that follow from messages of one kind which are gone."""

    name: str
    group: int
    producer: int
    topic: int
    cause: str
    n: int
    known: Circumstances


class DisplacedRow(NamedTuple):
    """Inconsistent offsets of one place, by the acknowledgement that is not borne out there."""

    place: int
    producer: int | None
    cause: str | None
    known: Circumstances | None
    places: int


class ReorderedRow(NamedTuple):
    """Reordered messages of a producer; `across`: its partition changed its leader meanwhile."""

    producer: int
    across: bool
    messages: int


class Silence(NamedTuple):
    """A producer's longest time without an acknowledgement from a place (ns)."""

    producer: int
    place: int
    from_ns: int
    to_ns: int


class Delivered(NamedTuple):
    """What a member was handed: records, and when the last of them."""

    records: int
    last_ns: int


@dataclass(frozen=True)
class Resized:
    """A topic that was resized: its partitions that have a record, its keys and those that moved (None where
    no producer gives keys); by group the partitions that were read, and messages out of order by key.
    """

    topic: str
    written: int
    keys: int | None
    moved: int | None
    read: Mapping[int, int]
    out_of_order: Mapping[int, int]


class WindowCounts(NamedTuple):
    """Attempts and acknowledgements in a fault's windows (questions/fault_windows.py)."""

    sent: int
    affected: int
    loss_sent: int
    loss_acked: int


@dataclass
class Account:
    """Keys by fault are fault ids; `unclear`: by anomaly and group, of what nobody can tell whether it is
    one; `latencies` by what they are of (ACK, END_TO_END); `shared`: records by group, member and kind of
    share_events, all three as numbers; `transactions`: by producer and outcome, as a number, how many there
    are and of how many messages; `delivered` by group and member; `per_second`: by what happened and second
    since the epoch, how often; `beginnings`: of groups that do not read from the start; `too_early`: by group
    and topic, what of `unseen` was stored before such a group began; `maybe_too_early`: by group, what may
    have been; `begins`: by such a group and place, from which offset on anything was for it; `broken`:
    transactions with which nothing is wrong but that messages are gone (name of the anomaly, producer, first
    seq), and `missing`: of each why those are; `unprocessed`: inputs whose outputs are lost (group, why, how
    many); `redelivered` by rebalance, `first_records` (when, in ns) by
    member and rebalance: the numbers of `rebalances`; `waiting`: how far groups had come when faults were
    healed; `stuck`: messages by fault and group.
    """

    partitions: Partitions
    tally: Tally
    timeline: Timeline = field(default_factory=Timeline)
    cases: Counter[tuple[str, int | None, bool]] = field(default_factory=Counter)
    unclear: Mapping[tuple[str, int | None], int] = field(default_factory=dict)
    reaches: Sequence[Reach] = ()
    first_acks: Mapping[str, int] = field(default_factory=dict)
    first_deliveries: Mapping[str, int] = field(default_factory=dict)
    drained_ns: Mapping[str, int] = field(default_factory=dict)
    quiet: Mapping[str, int] = field(default_factory=dict)
    losses: Sequence[LossRow] = ()
    vanished: Sequence[VanishedRow] = ()
    displaced: Sequence[DisplacedRow] = ()
    consequences: Sequence[ConsequenceRow] = ()
    broken: Sequence[tuple[str, int, int]] = ()
    missing: Mapping[tuple[int, int], Sequence[LossRow]] = field(default_factory=dict)
    unprocessed: Sequence[tuple[int, Sequence[LossRow], int]] = ()
    deposed: Sequence[Deposed] = ()
    under: Under = field(default_factory=dict)
    seen: Mapping[tuple[Place, int], Seen] = field(default_factory=dict)
    reordered: Sequence[ReorderedRow] = ()
    window_counts: dict[str, WindowCounts] = field(default_factory=dict)
    latencies: dict[int, Latency] = field(default_factory=dict)
    gaps: Sequence[Silence] = ()
    shared: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    transactions: Mapping[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    rebalances: Rebalances = field(default_factory=Rebalances)
    delivered: Mapping[tuple[int, int], Delivered] = field(default_factory=dict)
    by_member: Mapping[tuple[str, int, int], int] = field(default_factory=dict)
    receivers: Mapping[tuple[int, int, bool], int] = field(default_factory=dict)
    redelivered: Mapping[int, int] = field(default_factory=dict)
    first_records: Mapping[tuple[int, int], int] = field(default_factory=dict)
    per_second: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    beginnings: pl.DataFrame = field(default_factory=late.none)
    begins: Mapping[tuple[int, Place], int] = field(default_factory=dict)
    waiting: pl.DataFrame = field(default_factory=waits.none)
    too_early: Mapping[tuple[int, int], int] = field(default_factory=dict)
    maybe_too_early: Mapping[int, int] = field(default_factory=dict)
    resized: list[Resized] = field(default_factory=list)
    stuck: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    examples: list[Case] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Messages acknowledged and not stored."""
        return self.tally.fates["acked", "0"]

    def add_cases(
        self,
        counts: pl.DataFrame,
        shown: Sequence[Mapping[str, pl.DataFrame]],
        order: Callable[[str], Sequence[str]],
        names: Names,
    ) -> None:
        """Adds the cases of anomalies that tasks have counted (stages/cases.py: COUNTED), and of those that
        each has `shown` the first. `order`: how each name's are ordered.
        """
        for name, group, flag, n in counts.iter_rows():
            self.cases[name, group, flag] += n
        for name in shown[0]:
            every = pl.concat([part[name] for part in shown], how="diagonal_relaxed")
            by = [column for column in order(name) if column in every.columns]
            self.examples += as_cases(name, first(every, by), names)

    def counted(self, name: str, group: int | None = None) -> int:
        """How many cases of that name there are, in that group where it is a group's."""
        return sum(n for (case, grp, _), n in self.cases.items() if case == name and group in (None, grp))

    def unrecorded(self, group: int) -> bool:
        """Whether a group has deliveries and no share_events."""
        shared = any(grp == group for grp, _, _ in self.shared)
        return not shared and any(grp == group for grp, _ in self.delivered)

    def attempted(self) -> list[Attempted]:
        """The times in which acks=0 losses are attributed to a fault."""
        return [
            Attempted(reach.fault.id, reach.fault.effective_ns, self.first_acks.get(reach.fault.id))
            for reach in self.reaches
            if reach.fault.effective_ns is not None and reach.places
        ]

    def lost_acks(self, fault: str) -> tuple[int, int | None, int | None]:
        """(count, first and last acknowledgement in ns) of the losses attributed to a fault."""
        rows = [row for row in self.losses if row.fault == fault]
        from_ns = min((row.first_ns for row in rows if row.first_ns is not None), default=None)
        to_ns = max((row.last_ns for row in rows if row.last_ns is not None), default=None)
        return sum(row.messages for row in rows), from_ns, to_ns

    def spans(self) -> list[Span]:
        """The windows to count attempts in, of faults that reached a partition or lost something."""
        spans = []
        for reach in self.reaches:
            _, lost_from_ns, lost_to_ns = self.lost_acks(reach.fault.id)
            reached = reach.fault.effective_ns is not None and bool(reach.places)
            if reached or lost_from_ns is not None:
                to_ns = self.first_acks.get(reach.fault.id, FOREVER_NS) if reached else None
                from_ns = reach.fault.effective_ns if reached else None
                spans.append(Span(reach.fault.id, from_ns, to_ns, lost_from_ns, lost_to_ns))
        return spans
