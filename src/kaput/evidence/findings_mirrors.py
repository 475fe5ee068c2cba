"""Parts of the findings: mirrors between clusters, and the plan by which clients are moved. The document:
findings.py.
"""

from __future__ import annotations

from typing import Literal

from kaput.evidence.comparisons import Status
from kaput.evidence.findings_parts import FindingsPart


class ComparedMirror(FindingsPart):
    """Source and target of a mirror, compared at the end of the run as `kaput compare` does it."""

    status: Status | None
    """The worst of all that was compared; null if the comparison could not be done."""
    lost: list[str] = []
    """What is lost, as in `topic orders, records`."""
    why: str = ""
    """Why it could not be done."""


class MirrorFindings(FindingsPart):
    """One mirror, and what became of the messages that it was to copy."""

    mirror: str
    """Source and target, as in `dc1->dc2`."""
    source: str
    """The cluster that it copies from."""
    target: str
    """The cluster that it copies to."""
    topics: list[str]
    """The topics that it copies, with the name of their cluster."""
    drained: bool
    """Whether everything in the source had reached the target at the end."""
    ended_ns: int | None = None
    """When it ended for good; null if it never did."""
    ended: Literal["stopped", "fault"] | None = None
    """Whether it was stopped, or killed (`fault`: by a fault, or where it did not stop in time); null if it
    never ended."""
    restarts: int = 0
    """How often it was started again."""
    acknowledged: int
    """Messages that were acknowledged in the source, in those topics."""
    mirrored: int
    """Of these, in the target."""
    unmirrored: int
    """Of these, not in the target, which was read to its end."""
    causes: dict[str, int] = {}
    """Of unmirrored ones: how many by cause."""
    unmirrored_since_ns: int | None = None
    """The first acknowledgement of one that is unmirrored, not after the mirror's end; null without any."""
    deleted_first_ns: int | None = None
    """Of unmirrored ones with the cause deleted: the first acknowledgement; null without any."""
    deleted_last_ns: int | None = None
    """Of these, the last acknowledgement: between the two the target is incomplete for good."""
    rpo_messages: int | None
    """Unmirrored messages, but for those that were acknowledged after the mirror had ended for good; null if
    it is not known which those are, because the target was not read to its end."""
    rpo_s: float | None = None
    """How old the oldest of these was when the mirror ended (else at the end of the run), counted
    from its acknowledgement; 0 without any, null if that end is not known, or as above."""
    mirrored_twice: int = 0
    """Messages of which the target has more copies than the source."""
    reordered: int = 0
    """Messages that the target has in a different order from the source."""
    merged: int = 0
    """Copies stored after messages that producers had sent to the target itself and that no other cluster
    has: both clusters were written to independently."""
    conflicting_keys: int | None = None
    """Keys of which both wrote messages in this way; null where no producer repeats keys."""
    own_last_keys: int | None = None
    """Of these, keys whose last message in the target is its own, not a copy; null where no producer repeats
    keys."""
    looped: int = 0
    """Messages that came back to the target of this mirror, which was their own cluster."""
    lag_max: int | None = None
    """The most records that were not copied yet, over all partitions of one sample; null without samples from
    before producers wrote to the copies, or a topic was deleted and created again.
    """
    checkpoints: int = 0
    """Translated positions that the mirror announced."""
    compared: ComparedMirror | None = None
    """What the comparison at the end of the run found (`expect.mirror`); null without one."""


class PlanStepFindings(FindingsPart):
    """One step of the plan."""

    step: str
    """Its number and its word."""
    kind: str
    """Its word."""
    outcome: str
    """done, failed or skipped."""
    started_ns: int
    """When it began."""
    seconds: float | None = None
    """How long it took; null if it never ended."""
    proof: str
    """What shows that it is done, or why not."""


class ClientWait(FindingsPart):
    """How long clients waited that were moved from one cluster to another."""

    from_ns: int
    """The last acknowledgement, or delivery, in the source."""
    to_ns: int
    """The first in the target after that."""
    seconds: float
    """From the one to the other."""


class GroupSwitch(FindingsPart):
    """A group that was moved to another cluster."""

    group: str
    """The group's id."""
    rto: ClientWait | None = None
    """From its last delivery in the source to its first in the target; null without either."""
    read_twice: int
    """Messages at or above its positions in the target that had been delivered to it before."""
    skipped: int
    """Messages below its positions in the target that were never delivered to it."""


class PlanFindings(FindingsPart):
    """The plan by which clients were moved, and what that cost."""

    steps: list[PlanStepFindings]
    """In the order of their beginnings."""
    source: str | None = None
    """The cluster that clients were moved from; null if not known."""
    target: str | None = None
    """The cluster that clients were moved to; null if not known."""
    rto_writes: ClientWait | None = None
    """From the last acknowledgement in the source before the fault (without one: before it was fenced, or
    producers were moved) to the first in the target after that; null without either."""
    groups: list[GroupSwitch] = []
    """Groups."""
