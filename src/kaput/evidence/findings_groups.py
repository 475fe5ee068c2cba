"""Parts of the findings: fates of messages, and consumer groups. The document: findings.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import PrivateAttr

from kaput.evidence.findings_parts import FindingsPart, GroupCounts, Percentiles
from kaput.scenario.vocabulary import GroupType, Isolation

Stored = Literal["0", "1", "n", "unread", "uncommitted"]
Delivered = Literal["0", "1", "n"]


class Fate(FindingsPart):
    """How many messages had this outcome and were stored this many times."""

    outcome: str
    """acked, failed, unknown, kept or refused: the outcome at the producer."""
    stored: Stored
    """How many times; `unread`: its partition was not read to its end; `uncommitted`: never committed."""
    count: int
    """Messages."""


class GroupFate(Fate):
    """The same, and delivered to the group this many times."""

    delivered: Delivered
    """How many times."""


class Lag(FindingsPart):
    """Log end offsets minus committed offsets, over all partitions of a group."""

    max: int | None = None
    """The greatest sample; null without samples."""
    final: int | None = None
    """At the end of the run; null if an end offset or every commit is missing."""
    final_without_record: int = 0
    """Of these, offsets behind the last record of their log, such as markers of transactions; only of logs
    that were read to their end."""


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


class GroupFindings(GroupCounts, FindingsPart):
    """One consumer group. In Python its anomalies are attributes, too: `group.redelivered`."""

    group: str
    """The group's id."""
    type: GroupType = "classic"
    """The protocol."""
    isolation: Isolation | None = None
    """The isolation level; null if unknown."""
    drained: bool
    """Whether it had read everything that is stored when the run ended."""
    delivered_messages: int
    """Distinct messages of the run that were delivered to it."""
    fates: list[GroupFate]
    """Every message exactly once, so the counts add up to totals.sent."""
    redelivered_after_commit: int = 0
    """Of `redelivered`, what is not permitted."""
    delivered_per_s: float | None = None
    """Records, from the first attempt to the last delivery; null without deliveries."""
    longest_commit_gap_ms: float | None = None
    """The longest time between two commits of any of its members; null with fewer than two."""
    end_to_end_ms: Percentiles = Percentiles()
    """From the attempt to the first delivery to this group."""
    lag: Lag = Lag()
    """How far it was behind."""
    members: list[ShareMemberFindings | MemberFindings] = []
    """All members that the evidence names; for a share group, those that were handed records."""

    _counts: Mapping[str, int] = PrivateAttr(default_factory=dict)

    def total(self, anomaly: str) -> int:
        return self._counts.get(anomaly, 0)
