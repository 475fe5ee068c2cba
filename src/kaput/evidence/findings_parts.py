"""Parts of the findings about groups, partitions and clients; the document itself is in findings.py.

Times are ns since the epoch; words are those of docs/GLOSSARY.md.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

When = Literal["before", "during", "after"]


class Part(BaseModel):
    """A frozen piece of the document."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Percentiles(Part):
    """Milliseconds; null where there was nothing to measure."""

    p50: float | None = None
    p99: float | None = None
    p999: float | None = None
    max: float | None = None


class Learned(Part):
    """When the producers of one kind of client knew of a new leader: by their first acknowledgements from it.

    client: librdkafka, java or command, with its version where the scenario gives one. producers: how many of
    them were acknowledged anything by it; first_ms, last_ms: from the election to the first and the last.
    """

    client: str
    producers: int
    first_ms: float
    last_ms: float


class Lag(Part):
    """Log end offsets minus committed offsets, over all partitions of a group; null where not known."""

    max: int | None = None
    final: int | None = None


class MemberFindings(Part):
    """A member of a group, how many records were delivered to it, how many of its commits of a partition were
    refused, and how many anomalies of each kind are its own (those that it has none of are left out). Of the
    records that were redelivered in its group, all that were delivered to it count as its own.
    """

    member: str
    delivered: int
    commits_refused: int = 0
    redelivered_after_commit: int = 0
    anomalies: dict[str, int] = {}


class ShareMemberFindings(MemberFindings):
    """One member of a share group: of the records that it was handed, those of which what it asked for was
    confirmed; `failed`: asks that were refused, or of which nobody knows whether they took effect.
    """

    accepted: int
    released: int
    rejected: int
    failed: int = 0


class Handover(Part):
    """One member in a rebalance: when it gave up a partition first, was assigned one last, and had its first
    record of what it was assigned; null for what did not happen.
    """

    member: str
    revoked_ns: int | None = None
    assigned_ns: int | None = None
    first_record_ns: int | None = None


class RebalanceFindings(Part):
    """One rebalance of a group; `ended_ns` is null where a partition never had an owner again."""

    group: str
    trigger: str
    started_ns: int
    ended_ns: int | None
    members: int
    unowned_partition_seconds: float
    redelivered: int
    handovers: list[Handover] = []


class Slump(Part):
    """Whole seconds of the load, one after the other, in which less than that was acknowledged, or delivered:
    how many at most, and in all.
    """

    what: str
    below_per_s: float
    longest_s: int
    total_s: int


class MeanRates(Part):
    """What happened in a second on average: before the faults, while they lasted, or after them, of the load.
    Deliveries are those of all groups.
    """

    when: When
    seconds: int
    sent_per_s: float
    acked_per_s: float
    delivered_per_s: float


class ResizedForGroup(Part):
    """A resized topic as one group saw it: partitions that it was handed records of; messages that it was
    handed after a later one with the same key (null where no producer gives keys); and those that it was
    never handed, since they were stored before it first looked into their partition, at the end of that.
    """

    group: str
    partitions_read: int
    out_of_order_by_key: int | None
    stored_too_early: int


class ResizedTopic(Part):
    """A topic that got more partitions while it was used. `keys`, `keys_moved`: null where no producer gives
    keys that it repeats.
    """

    topic: str
    partitions_before: int
    partitions: int
    partitions_written: int
    keys: int | None
    keys_moved: int | None
    groups: list[ResizedForGroup]


class PartitionSnapshot(Part):
    """One partition at one moment; leader -1 where nobody led, nulls where no event tells."""

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: list[int]
    isr: list[int] | None


class PartitionTable(Part):
    """Every partition at one moment."""

    when: When
    at_ns: int
    partitions: list[PartitionSnapshot]


class TransactionFindings(Part):
    """The transactions of a run that have a message, by their outcomes, and the messages of all.

    `longest_standstill_ms`: the longest time for which a last stable offset was seen not to move below the
    high watermark, and of which partition; None where it never was, or was not sampled.
    """

    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    messages: int = 0
    longest_standstill_ms: float | None = None
    standstill_topic: str | None = None
    standstill_partition: int | None = None
