"""Parts of the findings: fates of messages, and consumer groups. The document: findings.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import PrivateAttr

from kaput.evidence.counts import GroupCounts
from kaput.evidence.findings_parts import FindingsPart, Lag, MemberFindings, Percentiles, ShareMemberFindings
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
        """The count of an anomaly in this group."""
        return self._counts.get(anomaly, 0)
