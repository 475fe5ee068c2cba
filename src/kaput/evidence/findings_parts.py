"""Parts of the findings: rates, partitions, clients and members of groups. The document: findings.py.

Times are ns since the epoch (`_ns`) or durations in ms (`_ms`); terms are defined in docs/GLOSSARY.md.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

When = Literal["before", "during", "after"]


class FindingsPart(BaseModel):
    """A frozen piece of the document."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True
    )


class Percentiles(FindingsPart):
    """Milliseconds; null where there was nothing to measure."""

    p50: float | None = None
    """Median."""
    p99: float | None = None
    """99th percentile."""
    p999: float | None = None
    """99.9th percentile."""
    max: float | None = None
    """Maximum."""


class Slump(FindingsPart):
    """Whole seconds in a row in which less was acknowledged, or delivered, than is to be expected."""

    what: str
    """acknowledged or delivered."""
    below_per_s: float
    """The threshold: 80 % of what the producers are to send."""
    longest_s: int
    """The longest of them."""
    total_s: int
    """All of them."""


class LatencyAround(FindingsPart):
    """Latencies before, during or after the faults."""

    when: When
    """Before: done before the first fault took effect. After: attempted after the last heal. During: all
    others.
    """
    ack: Percentiles
    """From the attempt to the acknowledgement."""
    end_to_end: Percentiles
    """From the attempt to the first delivery, over all groups."""


class MeanRates(FindingsPart):
    """What happened in a second of the load on average."""

    when: When
    """Before the faults, during or after them."""
    seconds: int
    """Over how many seconds."""
    sent_per_s: float
    """Attempts."""
    acked_per_s: float
    """Acknowledgements."""
    delivered_per_s: float
    """Deliveries, of all groups together."""


class ResizedForGroup(FindingsPart):
    """A resized topic as one group read it."""

    group: str
    """The group's id."""
    partitions_read: int
    """Partitions that it was delivered records of."""
    out_of_order_by_key: int | None
    """Messages delivered after a later one with the same key; null if no producer uses keys."""
    stored_too_early: int
    """Messages never delivered because they were stored before the group found their partition."""


class ResizedTopic(FindingsPart):
    """A topic that got more partitions while it was used."""

    topic: str
    """Topic."""
    partitions_before: int
    """Partitions before."""
    partitions: int
    """Partitions after."""
    partitions_written: int
    """Partitions that have messages."""
    keys: int | None
    """Distinct keys; null if no producer repeats keys."""
    keys_moved: int | None
    """Keys that are stored in more than one partition; null if no producer repeats keys."""
    groups: list[ResizedForGroup]
    """How groups read it."""


class PartitionSnapshot(FindingsPart):
    """One partition at one moment."""

    topic: str
    """Topic."""
    partition: int
    """Partition."""
    leader: int | None
    """The leader, -1 for none; null if no event tells."""
    leader_epoch: int | None
    """Its epoch; null if no event tells."""
    replicas: list[int]
    """Brokers that have a replica; empty if unknown."""
    isr: list[int] | None
    """In-sync replicas; null if no event tells."""
    leader_down: bool = False
    """Whether the leader's process was gone, and nobody else had been elected yet."""


class PartitionTable(FindingsPart):
    """Every partition at one moment."""

    when: When
    """Before the faults, during or after them."""
    at_ns: int
    """The moment."""
    partitions: list[PartitionSnapshot]
    """By topic and number."""


class TransactionFindings(FindingsPart):
    """The transactions that have a message, by outcome."""

    committed: int = 0
    """Transactions whose commit was confirmed."""
    aborted: int = 0
    """Transactions whose abort was confirmed."""
    unknown: int = 0
    """All others."""
    messages: int = 0
    """Messages of all of them."""
    longest_standstill_ms: float | None = None
    """The longest time a last stable offset stalled below the high watermark; null without any."""
    standstill_topic: str | None = None
    """Where that was; null as above."""
    standstill_partition: int | None = None
    """Where that was; null as above."""


class Learned(FindingsPart):
    """When producers of one kind of client knew of a new leader: by their first acknowledgements from it."""

    client: str
    """librdkafka, java or command, with its version if the scenario sets one."""
    producers: int
    """How many of them the new leader acknowledged anything to."""
    first_ms: float
    """From the election to the first such acknowledgement."""
    last_ms: float
    """From the election to the first such acknowledgement of the last producer."""
    median_ms: float | None = None
    """The median of them; null in findings of an older kaput."""
    last_producers: list[int] = []
    """The last five producers, the last one first; none if there are not more than five."""


class Lag(FindingsPart):
    """Log end offsets minus committed offsets, over all partitions of a group."""

    max: int | None = None
    """The greatest sample; null without samples."""
    final: int | None = None
    """At the end of the run; null if an end offset or every commit is missing."""


class MemberFindings(FindingsPart):
    """One member of a group."""

    member: str
    """Its name in the evidence."""
    delivered: int
    """Records delivered to it."""
    commits_refused: int = 0
    """Its commits of a partition that a broker refused."""
    redelivered_after_commit: int = 0
    """Records delivered to it although the group had committed past them."""
    anomalies: dict[str, int] = {}
    """Its own share of the group's anomalies by name, without zeros. Redelivered: all such records it got."""


class ShareMemberFindings(MemberFindings):
    """One member of a share group: records by the acknowledgement that a broker confirmed."""

    accepted: int
    """Confirmed accepts."""
    released: int
    """Confirmed releases."""
    rejected: int
    """Confirmed rejects."""
    failed: int = 0
    """Acknowledgements that were refused, or of which it is unknown whether they took effect."""


class Handover(FindingsPart):
    """One member in a rebalance."""

    member: str
    """Its name in the evidence."""
    revoked_ns: int | None = None
    """When it first gave up a partition; null if it gave up none."""
    assigned_ns: int | None = None
    """When it was last assigned one; null if it was assigned none."""
    first_record_ns: int | None = None
    """Its first record of a partition that it was assigned; null without one."""


class RebalanceFindings(FindingsPart):
    """One rebalance of a group."""

    group: str
    """The group's id."""
    trigger: str
    """Why it began, as far as is known."""
    started_ns: int
    """Its first change of owner, or the loss of a member before that: when it was frozen."""
    ended_ns: int | None
    """Its last change of owner; null if a partition never had an owner again."""
    resumed_ns: int | None = None
    """The first delivery to its new owner from the partition that was read again last, of those that had an
    owner before; null if none had one, or nothing was delivered."""
    unresumed_partitions: int = 0
    """Partitions that had an owner before, and of which nothing was delivered to the new one: there was
    nothing to deliver, or it lost them soon."""
    members: int
    """Members when it was over."""
    unowned_partition_seconds: float
    """Time without an owner, added up over all partitions."""
    redelivered: int
    """Records delivered once more because of it."""
    handovers: list[Handover] = []
    """What it meant for each member."""

    @property
    def took_ns(self) -> int | None:
        """From its start to when every partition had an owner again, and those that had one before were read
        again, as far as anything was delivered from them; None if some partition never had an owner again.
        """
        if self.ended_ns is None:
            return None
        return max(self.ended_ns, self.resumed_ns or self.ended_ns) - self.started_ns
