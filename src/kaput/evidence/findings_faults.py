"""Parts of the findings: faults and leader changes. The document: findings.py."""

from __future__ import annotations

from kaput.evidence.findings_claims import EndedBy, Wait
from kaput.evidence.findings_parts import FindingsPart, Learned
from kaput.scenario import vocabulary


class FaultFindings(FindingsPart):
    """One injected fault: the proof that it took effect, and what it did."""

    id: str
    """The step's id: its number in the scenario and the fault."""
    fault: str
    """The fault's name."""
    target: str
    """The target as the scenario has it."""
    brokers: list[int]
    """The nodes that it hit; empty for members, producers and topics."""
    bit: bool
    """Whether it took effect, and lasted until its heal."""
    proof: str
    """What the probe measured, in a sentence."""
    injected_ns: int
    """When the injection began."""
    effective_ns: int | None
    """When it took effect; null if it never did."""
    healed_ns: int | None
    """When its end was confirmed; null if it was not."""
    event: str | None = None
    """The event that it began at; null if it waited for none."""
    event_ns: int | None = None
    """When that happened, according to its recorder; null if that is unknown."""
    noticed_ns: int | None = None
    """When kaput noticed it; null if it waited for none."""
    loss_window_ms: float | None = None
    """From the first to the last acknowledgement of a lost message; null if nothing was lost."""
    first_lost_ack_ns: int | None = None
    """The first such acknowledgement; null if nothing was lost."""
    last_lost_ack_ns: int | None = None
    """The last such acknowledgement; null if nothing was lost."""
    lost: int = 0
    """Messages lost because of this fault."""
    lost_after_heal: int = 0
    """Of these, acknowledged after the heal."""
    lost_share: float | None = None
    """Lost, of what was acknowledged in the loss window; null if nothing was lost."""
    affected: int = 0
    """Messages of the partitions that it hit lost, failed, unknown or delayed by it (see the glossary)."""
    sent_in_window: int = 0
    """Attempts to these partitions, each until the end of its own silence."""
    affected_share: float | None = None
    """Affected, of sent_in_window; null if nothing was sent in that time."""
    acked_in_loss_window: int = 0
    """Messages acknowledged in the loss window."""
    sent_in_loss_window: int = 0
    """Attempts in the loss window."""
    election_ms: float | None = None
    """From effective to the first election of a leader on a partition that it led; null without one."""
    unavailable_ms: float | None = None
    """The longest silence of a partition that it hit; null if none lasted a second."""
    unavailable_ended_by: EndedBy | None = None
    """What ended that silence; null without one, or if it lasted until the end of the load."""
    unavailable_waited_for: list[Wait] = []
    """What that silence waited for, in order; empty if that is not known."""
    first_ack_after_ms: float | None = None
    """From effective to the new leader's first acknowledgement; null if there is none."""
    first_delivery_after_ms: float | None = None
    """From effective to the first delivery of what the new leader stored; null if there is none."""
    backlog_drained_ms: float | None = None
    """From effective until every group had drained its backlog; null if none had one, or one never did."""
    lag_ended_by: EndedBy | None = None
    """What ended the growth of the lag, of the group whose lag grew the longest; null without a backlog, or
    if it grew for less than a second."""
    isr_restored_ms: float | None = None
    """From the heal to the full in-sync replica set; null if it never was full again, or never shrank."""
    isr_ended_by: EndedBy | None = None
    """What made it full again: heal, or unknown if it was full before the heal; null as above."""
    stuck: dict[str, int] = {}
    """By group: messages that it got only after the heal (see the glossary). Groups without any are left
    out."""

    @property
    def proven(self) -> bool:
        """Whether it is proven to have taken effect (see vocabulary.proven)."""
        return vocabulary.proven(self.fault, self.bit, self.effective_ns)


class LeaderChange(FindingsPart):
    """A new leader of a partition: another broker, or the same one without what it had acknowledged."""

    topic: str
    """Topic."""
    partition: int
    """Partition."""
    elected_ns: int
    """The election, by the cluster's own record."""
    epoch: int
    """The new leader epoch."""
    leader: int
    """The new leader."""
    old_leader: int | None
    """The leader before; null if unknown."""
    old_leader_in_sync: bool | None = None
    """Whether it was in the ISR at the election, so that the change was planned: a preferred leader election,
    by a step, by a tool, or by Kafka's own rebalancing of leaders. Null if that is not recorded."""
    fault: str | None = None
    """The id of the fault that caused it; null if none is known."""
    without_leader_ms: float | None = None
    """How long the partition had no leader (-1) before; null if it always had one."""
    first_ack_ns: int | None = None
    """The new leader's first acknowledgement; null if it gave none before another broker led."""
    last_deposed_ack_ns: int | None = None
    """The old leader's last acknowledgement that was overwritten; null without one."""
    two_leaders_ms: float | None = None
    """From the election to that acknowledgement; null if there is none after the election."""
    overlap_ms: float | None = None
    """From the new leader's first acknowledgement to it: both acknowledged writes. Null if they never did."""
    deposed_acks: int = 0
    """Acknowledgements of the old leader that this epoch overwrote."""
    deposed_acks_after_election: int = 0
    """Of these, given after the election."""
    lost: int = 0
    """Messages lost by it."""
    lost_after_heal: int = 0
    """Of these, acknowledged after the heal of the fault."""
    offsets_used_twice: int = 0
    """Offsets that both leaders gave to different messages."""
    lost_seen: dict[int, int] = {}
    """By broker: how many of the lost messages it was seen to hold."""
    lost_unseen: int | None = None
    """Lost messages that no replica was seen to hold; null if no replica was observed."""
    lost_unseen_last_ms: float | None = None
    """How long before the old leader's last acknowledgement the first of these was given; null if none."""
    learned: list[Learned] = []
    """When clients knew of the new leader."""


class Unavailability(FindingsPart):
    """The longest silence of one producer in one partition. Producers without a silence have no row."""

    producer: int
    """The producer."""
    topic: str
    """Topic."""
    partition: int
    """Partition."""
    longest_ms: float
    """How long."""
    from_ns: int
    """Since when."""
    to_ns: int
    """Until when."""
    ended_by: EndedBy | None = None
    """What ended it; null if it lasted until the end of the load."""
    waited_for: list[Wait] = []
    """What it waited for, in order; empty if that is not known."""
