"""What the verdict is drawn from: exact counts, broken down by whatever a contract may ask for.

The analysis fills it in; nothing here judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kaput.evidence.findings_kept import NOTHING_KEPT, KeptFindings
from kaput.scenario import vocabulary

if TYPE_CHECKING:
    from kaput.evidence.comparisons import Status
    from kaput.evidence.findings import UnreadPartition
    from kaput.evidence.folder import State


class Circumstances(NamedTuple):
    """What is known of acknowledgements that the log contradicts, in addition to their cause.

    leaders_known: who led the partition is recorded: of a cause with two leaders, both of them.
    isr_of_one: the ISR was the leader alone when they were given.
    hole: nothing is at their offset now, or they name none.
    either_leader: that hole may be a later leader's, and neither they nor the log tell which one gave them;
    maybe_unclean: it may have been taken along by an unclean election, or the epoch that overwrote them may
    have begun with one.
    unsynced: a fault took along what the leader had not synced; isr_unsynced: what every member of the ISR
    had not; isr_unsure: the evidence does not tell whether every member did.
    deleted: the log began above their offset when it was read, or above 0, and they name none, or a step of
    the timeline deleted their whole topic; maybe_deleted: where it began is not recorded, and it has no
    record at or below their offset. deleted_by_step: a step of the timeline that is proven deleted records
    there, or the topic, and they were seen before: delivered, or mirrored.
    """

    leaders_known: bool = True
    isr_of_one: bool = False
    hole: bool = False
    either_leader: bool = False
    maybe_unclean: bool = False
    unsynced: bool = False
    isr_unsynced: bool = False
    isr_unsure: bool = False
    deleted: bool = False
    maybe_deleted: bool = False
    deleted_by_step: bool = False


ORDINARY = Circumstances()


@dataclass(frozen=True)
class Loss:
    """Lost messages of one kind."""

    producer: int
    topic: str
    cause: str
    count: int
    known: Circumstances = ORDINARY


@dataclass(frozen=True)
class Displaced:
    """Inconsistent offsets of one kind. `producer`: whose acknowledgement the log does not bear out."""

    topic: str
    producer: int | None
    cause: str
    count: int
    known: Circumstances = ORDINARY


@dataclass(frozen=True)
class Consequence:
    """Cases of an anomaly, of a group or of the run, behind each of which are losses like these.

    A case without any that is known is ruled as if nothing explained it.
    """

    name: str
    group: str | None
    count: int
    losses: Sequence[Loss] = ()


@dataclass(frozen=True)
class Reordered:
    """Reordered messages of one producer. `across_leaders`: the partition changed its leader meanwhile;
    `replay`: a store had them; `by_key`: and a later one with the same key is before them, though their
    producer keeps the order of keys.
    """

    producer: int
    count: int
    across_leaders: bool = False
    replay: bool = False
    by_key: bool = False


@dataclass(frozen=True)
class ReplayedTwice:
    """Messages of one producer that a store had, and that are stored more than once. `in_doubt`: Kafka may
    have stored them before the store took them; `by_replay`: replays alone stored them more than once.
    """

    producer: int
    count: int
    in_doubt: bool
    by_replay: bool = False


@dataclass(frozen=True)
class GroupFacts:
    """One consumer group. `counts` has its anomalies by name; `vanished`: why those are gone; `too_early`:
    what of `unseen` was stored before a group that does not read from the start began; `unrecorded`: it is a
    share group with deliveries, and nothing is on record of what became of them; `unnoticed`: records that
    would be a lost-release, but that a member may have been handed for the last time when it was killed;
    `maybe_too_early`: what of `unseen` may have been too early; `moved_away`: what of it is in a cluster that
    the group had left, and not in the one where it was; `unseen_back`, `ahead_back`: what of `unseen` and of
    `translated-ahead` failing back costs, by the cause for which it is unmirrored.
    """

    group: str
    drained: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    redelivered_after_commit: int = 0
    vanished: Sequence[Loss] = ()
    too_early: int = 0
    unrecorded: bool = False
    unnoticed: int = 0
    maybe_too_early: int = 0
    moved_away: int = 0
    unseen_back: Mapping[str, int] = field(default_factory=dict)
    ahead_back: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class FaultFacts:
    """One injected fault, whether (`bit`) and when it took effect; None if that is not recorded."""

    id: str
    fault: str
    target: str
    bit: bool
    proof: str
    effective_ns: int | None = None
    brokers: Sequence[int] = ()

    @property
    def proven(self) -> bool:
        """Whether its effect is confirmed (see vocabulary.proven)."""
        return vocabulary.proven(self.fault, self.bit, self.effective_ns)


@dataclass(frozen=True)
class MirrorAtEnd:
    """One mirror. `ended`: why it did not run in the end, so that it was not compared. `status`: what the
    comparison of its clusters found, None if that is not known; `why`: why not; `lost`: what is lost.
    """

    name: str
    ended: str = ""
    status: Status | None = None
    lost: Sequence[str] = ()
    why: str = ""


@dataclass(frozen=True)
class Facts:
    """One run. `counts` has the run's own anomalies by name; times are ns since the epoch; `slump_s`: the
    longest time below the ordered rate, None where there is no such rate; `stuck`: of all groups, until the
    heal of the fault with the most. `consequences`: those of `counts` and of the groups' that follow from
    losses; `hanging_within_grace`: last stable offsets that stood still no longer than
    the coordinator may take, `hanging_perhaps`: no longer than that if it was down for as long as it may have
    been; `standstill_s`: the longest of them. `polled_ns`: how late changes of leader and ISR may have been
    seen, None where the cluster recorded them. `standstill_ms` to `end_to_end_p99_ms`: what `expect` can
    limit, None where there was nothing to measure. `replayed_twice`: those of `duplicates` that a store had.
    `features`: by cluster, levels when the load began. `unmirrored`: by cause; `mirrored_twice_exactly_once`,
    `looped_by_default_policy`: of these, what the mirrors' settings promise to prevent.
    """

    state: State
    sent: int
    acked: int
    counts: Mapping[str, int] = field(default_factory=dict)
    unread: int = 0
    unread_partitions: Sequence[UnreadPartition] = ()
    losses: Sequence[Loss] = ()
    duplicates: Mapping[int, int] = field(default_factory=dict)
    replayed_twice: Sequence[ReplayedTwice] = ()
    kept: KeptFindings = NOTHING_KEPT
    refused: int = 0
    reordered: Sequence[Reordered] = ()
    displaced: Sequence[Displaced] = ()
    groups: Sequence[GroupFacts] = ()
    faults: Sequence[FaultFacts] = ()
    deaths: Sequence[tuple[int, int]] = ()
    troubles: Sequence[str] = ()
    leader_changes: int = 0
    consequences: Sequence[Consequence] = ()
    hanging_within_grace: int = 0
    hanging_perhaps: int = 0
    standstill_s: int | None = None
    polled_ns: int | None = None
    slump_s: int | None = None
    standstill_ms: float = 0.0
    unavailable_ms: float | None = None
    election_ms: float | None = None
    ack_p99_ms: float | None = None
    end_to_end_p99_ms: float | None = None
    stuck: int = 0
    end_offsets: int = 0
    end_offsets_known: bool = False
    unmirrored: Mapping[str, int] = field(default_factory=dict)
    mirrored_twice_exactly_once: int = 0
    looped_by_default_policy: int = 0
    mirrors: Sequence[MirrorAtEnd] = ()
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
