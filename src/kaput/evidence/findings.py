"""The findings model, kaput.findings/1: what the analysis and the verdict say, and every report reads.

Field names are those of the JSON (kebab-case only inside names of anomalies and causes).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from kaput.evidence.findings_parts import (
    Lag,
    Learned,
    MeanRates,
    MemberFindings,
    Part,
    PartitionTable,
    Percentiles,
    RebalanceFindings,
    ResizedTopic,
    ShareMemberFindings,
    Slump,
    TransactionFindings,
)
from kaput.scenario import vocabulary
from kaput.scenario.vocabulary import GroupType, Isolation, Verdict

Stored = Literal["0", "1", "n", "unread", "uncommitted"]
Delivered = Literal["0", "1", "n"]


class Run(Part):
    """Which run this is about. `varied`: the settings that --vary gave it, by their keys in the scenario."""

    id: str
    scenario: str
    title: str = ""
    varied: dict[str, JsonValue] = {}
    seed: int
    kafka: str | None
    mode: str
    started_ns: int
    ended_ns: int | None


class Totals(Part):
    """Counts over the whole run; `sent` is acked + failed + unknown."""

    sent: int
    acked: int
    failed: int
    unknown: int
    log_records: int
    stored_messages: int
    foreign_records: int = 0
    unread: int = 0
    uncommitted: int = 0


class Fate(Part):
    """How many messages had this outcome and were stored so often."""

    outcome: str
    stored: Stored
    count: int


class GroupFate(Fate):
    """... and were delivered to the group so often."""

    delivered: Delivered


class GroupFindings(Part):
    """One consumer group; `members`: all that any evidence names, of a share group those that had anything
    to do; `delivered_per_s`: records, over the time from the first attempt to the last delivery;
    `longest_commit_gap_ms`: between two commits of any of its members that follow one another.
    """

    group: str
    type: GroupType = "classic"
    isolation: Isolation | None = None
    drained: bool
    delivered_messages: int
    fates: list[GroupFate]
    redelivered_after_commit: int = 0
    delivered_per_s: float | None = None
    longest_commit_gap_ms: float | None = None
    end_to_end_ms: Percentiles = Percentiles()
    lag: Lag = Lag()
    members: list[ShareMemberFindings | MemberFindings] = []


class Example(Part):
    """One row behind a count; `story` tells it in a sentence."""

    producer: int | None = None
    seq: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    story: str


class Anomaly(Part):
    """One anomaly's exact count; violations are count minus permitted. `group` is null for the run's own.

    `causes`: of lost and vanished messages and inconsistent offsets, how many have which (vocabulary.CAUSES).
    """

    name: str
    count: int
    permitted: int
    group: str | None = None
    causes: dict[str, int] = {}
    extra_copies: int | None = None
    examples: list[Example] = []


class HighWatermarkArithmetic(Part):
    """What subtracting end offsets from acknowledgements would have said."""

    acked: int
    end_offsets: int
    difference: int


class FaultFindings(Part):
    """One injected fault: the proof that it took effect (`bit`), and what it did (definitions in
    docs/GLOSSARY.md). `stuck`: by group, of those that had any.
    """

    id: str
    fault: str
    target: str
    brokers: list[int]
    bit: bool
    proof: str
    injected_ns: int
    effective_ns: int | None
    healed_ns: int | None
    loss_window_ms: float | None = None
    first_lost_ack_ns: int | None = None
    last_lost_ack_ns: int | None = None
    lost: int = 0
    lost_after_heal: int = 0
    lost_share: float | None = None
    affected: int = 0
    sent_in_window: int = 0
    affected_share: float | None = None
    acked_in_loss_window: int = 0
    sent_in_loss_window: int = 0
    election_ms: float | None = None
    unavailable_ms: float | None = None
    first_ack_after_ms: float | None = None
    first_delivery_after_ms: float | None = None
    backlog_drained_ms: float | None = None
    isr_restored_ms: float | None = None
    stuck: dict[str, int] = {}

    @property
    def proven(self) -> bool:
        """Whether its effect is confirmed (see vocabulary.proven)."""
        return vocabulary.proven(self.fault, self.bit, self.effective_ns)


class UnreadPartition(Part):
    """A partition that was not read to its end; nulls where no end offset is recorded."""

    topic: str
    partition: int
    drained_to: int | None
    end_offset: int | None


class LeaderChange(Part):
    """A partition's leadership passing to another broker, and what the deposed one still acknowledged.

    Or to the same broker again (leader and old_leader are one), come back without what it had acknowledged.

    two_leaders_ms: from the election to the deposed leader's last acknowledgement; overlap_ms: from the new
    leader's first acknowledgement to that: clients of both were told that they had written.
    deposed_acks: acknowledgements that this epoch overwrote. lost_seen: by broker, how many of the lost
    ones it was seen to hold; lost_unseen: how many nobody (null where no replica was looked at), given no
    earlier than lost_unseen_last_ms before the last. learned: which client knew of the new leader when.
    """

    topic: str
    partition: int
    elected_ns: int
    epoch: int
    leader: int
    old_leader: int | None
    fault: str | None = None
    first_ack_ns: int | None = None
    last_deposed_ack_ns: int | None = None
    two_leaders_ms: float | None = None
    overlap_ms: float | None = None
    deposed_acks: int = 0
    deposed_acks_after_election: int = 0
    lost: int = 0
    lost_after_heal: int = 0
    offsets_used_twice: int = 0
    lost_seen: dict[int, int] = {}
    lost_unseen: int | None = None
    lost_unseen_last_ms: float | None = None
    learned: list[Learned] = []


class Unavailability(Part):
    """The longest time one producer had no acknowledgement from one partition while it was sending there."""

    producer: int
    topic: str
    partition: int
    longest_ms: float
    from_ns: int
    to_ns: int


class Latency(Part):
    """ack: attempt to acknowledgement. end_to_end: attempt to first delivery, over all groups."""

    ack: Percentiles
    end_to_end: Percentiles


class Rates(Part):
    """Means over the time from the first attempt to the last, and to the last acknowledgement.

    The rest only where every producer has a rate: `ordered_per_s`, of all of them.
    """

    sent_per_s: float
    acked_per_s: float
    ordered_per_s: float | None = None
    slumps: list[Slump] = []
    means: list[MeanRates] = []


class Findings(Part):
    """findings.json"""

    schema_: Literal["kaput.findings/1"] = Field(default="kaput.findings/1", alias="schema")
    run: Run
    verdict: Verdict
    reasons: list[str]
    totals: Totals
    fates: list[Fate]
    groups: list[GroupFindings]
    anomalies: list[Anomaly]
    high_watermark_arithmetic: HighWatermarkArithmetic
    faults: list[FaultFindings]
    leader_changes: list[LeaderChange] = []
    partition_tables: list[PartitionTable] = []
    rebalances: list[RebalanceFindings] = []
    resized: list[ResizedTopic] = []
    unread_partitions: list[UnreadPartition] = []
    transactions: TransactionFindings | None = None
    unavailability: list[Unavailability]
    latency_ms: Latency
    rates: Rates
    notes: list[str] = []

    def anomaly(self, name: str) -> list[Anomaly]:
        """The entries of that name: one, or one for each group."""
        return [a for a in self.anomalies if a.name == name]

    def to_json(self) -> str:
        """The document as it stands in findings.json."""
        return self.model_dump_json(by_alias=True, indent=2)
