"""The facts that the verdict is based on: exact counts, broken down by everything that a contract depends on.

Filled in by the analysis. Not here: judging (judge.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from kaput.evidence.findings_parts import NOTHING_KEPT, KeptFindings

if TYPE_CHECKING:
    from kaput.evidence.comparisons import Status
    from kaput.evidence.fault_rows import FaultRow
    from kaput.evidence.findings import UnreadPartition
    from kaput.evidence.folder import State


Removal = Literal["step", "compaction", "retention"]


class Circumstances(NamedTuple):
    """What is known about acknowledgements that the log contradicts, besides their cause.

    leaders_known: the partition's leaders are recorded; for a cause with two leaders, both.
    isr_of_one: the ISR was only the leader when they were given.
    hole: their offset is empty now, or they have none.
    either_leader: the hole may be a later leader's; neither they nor the log tell which leader gave them.
    maybe_unclean: an unclean election may have made the hole, or begun the overwriting epoch.
    unsynced: a fault took the leader's unsynced data; isr_unsynced: that of every member of the ISR;
    isr_unsure: the evidence does not tell whether it took every member's.
    disk_lost: the leader came back after a fault had taken its disk; isr_disk_lost: the loss of disks alone
    may have taken what every member of the ISR had, synced or not.
    deleted: the log began above their offset when it was read; or above 0, and they have no offset; or a step
    of the timeline deleted their whole topic. maybe_deleted: the log's start is not recorded, and it has no
    record at or below their offset. deleted_by_step: a proven step of the timeline deleted records there, or
    the topic, and they were there before: delivered, mirrored, acknowledged while the topic was being
    deleted, or still kept by their only leader.
    compacted: their topic is compacted, and a later message with the same key is stored; expired: retention
    had removed them, and they had been seen before. These three: removed as configured; a step's are lost,
    too. maybe_compacted: their topic is compacted, and whether a later message with the same key took their
    place is not known.
    """

    leaders_known: bool = True
    isr_of_one: bool = False
    hole: bool = False
    either_leader: bool = False
    maybe_unclean: bool = False
    unsynced: bool = False
    isr_unsynced: bool = False
    isr_unsure: bool = False
    disk_lost: bool = False
    isr_disk_lost: bool = False
    deleted: bool = False
    maybe_deleted: bool = False
    deleted_by_step: bool = False
    compacted: bool = False
    expired: bool = False
    maybe_compacted: bool = False

    @property
    def removed_by(self) -> Removal | None:
        """What removed them as configured, if anything did."""
        if self.deleted_by_step:
            return "step"
        return "compaction" if self.compacted else "retention" if self.expired else None


ORDINARY = Circumstances()


@dataclass(frozen=True)
class Loss:
    """Acknowledgements of one kind that the log contradicts: lost messages, or inconsistent offsets.
    `producer`: whose; None if the log contradicts only what a group received.
    """

    producer: int | None
    topic: str
    cause: str
    count: int
    known: Circumstances = ORDINARY


@dataclass(frozen=True)
class Consequence:
    """Cases of an anomaly, of a group or of the run, each of which follows from losses of these kinds. A case
    without known losses is ruled as unexplained.
    """

    name: str
    group: str | None
    count: int
    losses: Sequence[Loss] = ()


@dataclass(frozen=True)
class Reordered:
    """Reordered messages of one producer. `across_leaders`: the partition's leader changed in between;
    `replay`: a store had them; `by_key`: also, a later one with the same key is before them, although their
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
    have stored them before the store took them; `by_replay`: replays stored more than one copy.
    """

    producer: int
    count: int
    in_doubt: bool
    by_replay: bool = False


@dataclass(frozen=True)
class GroupFacts:
    """One consumer group. By anomaly, `counts`: all cases; `flagged`: those with a flag; `unclear`: possible
    cases; `causes` and `excused`: cases by cause, and by what excuses them. `vanished`: the losses behind
    these. `unrecorded`: a share group with deliveries but without share_events.
    """

    group: str
    drained: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, int] = field(default_factory=dict)
    unclear: Mapping[str, int] = field(default_factory=dict)
    causes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    excused: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    vanished: Sequence[Loss] = ()
    unrecorded: bool = False


@dataclass(frozen=True)
class MirrorAtEnd:
    """One mirror. `ended`: why it was not running at the end, and so was not compared; empty if it was.
    `status`: the result of comparing its clusters, None if unknown; `why`: why it is unknown; `lost`: what is
    lost.
    """

    name: str
    ended: str = ""
    status: Status | None = None
    lost: Sequence[str] = ()
    why: str = ""


class PlanStepAtEnd(NamedTuple):
    """A step of the plan (`2 fence`), how it ended, and why."""

    step: str
    outcome: str
    proof: str


@dataclass(frozen=True)
class Facts:
    """One run. Times are ns since the epoch.

    `acked_elsewhere`: acknowledged messages that are neither stored nor lost: not read back or not committed.
    Of the run's own anomalies, by name: `counts` to `excused` as in GroupFacts. `consequences`: cases in
    `counts`, and in those of groups, that follow from losses; `replayed_twice`: those of `duplicates` that a
    store had. `slump_s`: the longest time below the requested rate; `stuck`: over all groups, at the
    heal of the fault with the most; `standstill_s`: the longest stall of a last stable offset. These and
    `standstill_ms` to `end_to_end_p99_ms` are what `expect` can limit, None without a measurement.
    `acks_untimed`: no acknowledgement has a time. `polled_ns`: how late changes of leader and ISR may have
    been noticed, None if the cluster recorded them. `features`: by cluster, levels when the load began.
    """

    state: State
    sent: int
    acked: int
    counts: Mapping[str, int] = field(default_factory=dict)
    flagged: Mapping[str, int] = field(default_factory=dict)
    unclear: Mapping[str, int] = field(default_factory=dict)
    causes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    excused: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    unread: int = 0
    acked_elsewhere: int = 0
    unread_partitions: Sequence[UnreadPartition] = ()
    losses: Sequence[Loss] = ()
    duplicates: Mapping[int, int] = field(default_factory=dict)
    replayed_twice: Sequence[ReplayedTwice] = ()
    kept: KeptFindings = NOTHING_KEPT
    refused: int = 0
    reordered: Sequence[Reordered] = ()
    displaced: Sequence[Loss] = ()
    groups: Sequence[GroupFacts] = ()
    faults: Sequence[FaultRow] = ()
    deaths: Sequence[tuple[int, int]] = ()
    troubles: Sequence[str] = ()
    unreadable_lines: Mapping[str, int] = field(default_factory=dict)  # by table
    leader_changes: Mapping[str, int] = field(default_factory=dict)  # by topic
    consequences: Sequence[Consequence] = ()
    standstill_s: int | None = None
    polled_ns: int | None = None
    slump_s: int | None = None
    standstill_ms: float | None = 0.0
    unavailable_ms: float | None = None
    election_ms: float | None = None
    ack_p99_ms: float | None = None
    end_to_end_p99_ms: float | None = None
    stuck: int | None = 0
    acks_untimed: bool = False
    end_offsets: int = 0
    end_offsets_known: bool = False
    mirrors: Sequence[MirrorAtEnd] = ()
    plan: Sequence[PlanStepAtEnd] = ()
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
