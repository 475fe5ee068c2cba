"""Claims, what kaput says about the record, each with its kind, subject, times and figures; and the parts of
the findings that repeat them: silences and their causes, availability, faults, leader changes, expectations.

Sentences, tables, charts and comparisons render claims; nothing else interprets. The kinds are defined in
docs/GLOSSARY.md, and an independent reader of the raw tables (tests/second_opinion) checks every claim. The
document: findings.py.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from kaput.evidence.findings_parts import FindingsPart, Learned
from kaput.scenario import vocabulary

EndedBy = Literal[
    "heal", "election", "isr", "setting", "rebalance", "reread", "transaction", "client", "unknown"
]  # fmt: skip
ClaimKind = Literal[
    "silence", "cause", "unavailable", "election", "first-ack", "affected", "stuck", "backlog", "within-1s",
    "load", "rebalance", "times-unknown",
]  # fmt: skip


class Wait(FindingsPart):
    """One condition that a silence waited for, until it was met."""

    condition: EndedBy
    """heal: a broker (or client) of a fault serves again; election: a new leader; isr: a change of the
    in-sync replicas; setting: a step lowered min.insync.replicas; rebalance: an owner in the group;
    reread: a group had read again what it had read; transaction: one that held a group back was ended;
    client: the client's own time after all of these."""
    from_ns: int
    """Since when this condition was the one that was missing."""
    to_ns: int
    """When it was met."""
    record: str = ""
    """The record that met it, in words; of unknown what the record shows of it, if anything."""
    faults: list[str] = []
    """The faults that were healed, or the step that changed the setting."""
    fenced: int | None = None
    """The leader whose fencing an election followed; null: it followed none, or that is not known."""

    @property
    def seconds(self) -> float:
        """Its length in seconds."""
        return (self.to_ns - self.from_ns) / 1e9


class Claim(FindingsPart):
    """One interpretation of the record. A field is null where the claim is not about such a thing."""

    kind: ClaimKind
    """What is claimed (see the glossary)."""
    cluster: str | None = None
    """The cluster's name; null where a run has one cluster, or the claim is about no partition."""
    topic: str | None = None
    """The topic; null: not about one partition."""
    partition: int | None = None
    """The partition; null as above."""
    group: str | None = None
    """The group; null: about acknowledgements."""
    producer: int | None = None
    """The producer; null: about all together."""
    fault: str | None = None
    """The id of the fault; null: not about a fault."""
    from_ns: int | None = None
    """Since when; null if that is not known."""
    to_ns: int | None = None
    """Until when; null if it never ended, or that is not known."""
    figures: dict[str, int | float] = {}
    """Its figures by name."""
    waited_for: list[Wait] = []
    """Of a silence: what it waited for, in order."""
    ended_by: EndedBy | None = None
    """Of a silence: the last condition that was met; null if it ended with the load."""
    decidable: bool = True
    """Whether the record decides it; if not, `why` says what is missing."""
    why: str = ""
    """The record in words, or why it is not decidable."""


def needs_heal(waits: Sequence[Wait]) -> bool:
    """Whether a longer fault would have meant a longer silence: it waited for the heal of one. Not of a flap:
    each of its cuts ends after `down`, however long it lasts.
    """
    healed = [fault for wait in waits if wait.condition == "heal" for fault in wait.faults]
    return bool(healed) and not only_flaps(healed)


def only_flaps(faults: Collection[str]) -> bool:
    """Whether all of these are flaps (`link-flap`): what waited for them waited for a link that works."""
    return bool(faults) and all(fault.endswith("-flap") for fault in faults)


Met = Literal["met", "exceeded", "unmet"]


class NotableEvent(FindingsPart):
    """Something that happened to the cluster, or to a group."""

    at_ns: int
    """When."""
    kind: str
    """fault, heal, election, no-leader, isr, fenced, unfenced, started, stopped, rebalance or load-end."""
    what: str
    """What it was, in a few words."""


class Standstill(FindingsPart):
    """At least a second without any acknowledgement, or delivery, while messages were waiting for one."""

    group: str | None = None
    """The group that was delivered nothing; null: nothing was acknowledged."""
    topic: str | None = None
    """The partition's topic; null: of all partitions together."""
    partition: int | None = None
    """The partition; null as above."""
    from_ns: int
    """Since when."""
    to_ns: int
    """Until when."""
    length_ms: float
    """How long."""
    ended_by: EndedBy | None
    """The last condition that was met (see the glossary); null if it lasted until the end of the load."""
    waited_for: list[Wait] = []
    """What it waited for, in order; empty if that is not known."""
    cause: str | None = None
    """The likeliest cause, in a sentence; null if it is not known."""
    happened: list[NotableEvent] = []
    """What happened meanwhile, at most 20 of them."""
    happened_left_out: int = 0
    """How many more there were."""


class Availability(FindingsPart):
    """How available the service was to producers, or to a group: of one partition, or of all together."""

    group: str | None = None
    """The group that was delivered messages; null: of acknowledgements."""
    topic: str | None = None
    """The partition's topic; null: of all partitions together."""
    partition: int | None = None
    """The partition; null as above."""
    load_s: float
    """Seconds from the first attempt to the last outcome, or delivery, that is known."""
    standstill_s: float
    """Seconds of these in standstills: without any acknowledgement, or delivery."""
    standstills: int
    """How many there were."""
    longest_standstill_ms: float
    """The longest one; 0 without any."""
    messages: int
    """Messages attempted; of a group: acknowledged, of the topics that it reads."""
    within_1s: int
    """Of these, acknowledged (or delivered first) within 1 s of the attempt."""
    within_1s_share: float | None
    """The share of them; null without messages."""
    within_timeout: int | None = None
    """Acknowledged within the producer's delivery timeout; null if that is unknown, and of groups."""
    within_timeout_share: float | None = None
    """The share of them; null as above."""


class Suspect(FindingsPart):
    """A producer whose acknowledgements cannot be Kafka's."""

    producer: int
    """The producer."""
    client: str
    """Its client: librdkafka, java or command; unknown without a scenario."""
    acked_leaderless: int
    """Messages attempted and acknowledged while their partition certainly had no running leader."""
    lost_without_offset: int
    """Messages acknowledged without an offset, and lost without a cause in the cluster; not with acks=0."""
    story: str
    """The evidence against it, in a sentence."""


class Expected(FindingsPart):
    """One expectation of the scenario, and what came of it."""

    name: str
    """Its key in `expect`."""
    wanted: str
    """What the scenario has."""
    found: int | float | str | None
    """What it was; null if not measured. Of `verdict`: the `promise`; of `mirror`: the worst row."""
    met: Met
    """`exceeded` violates; `unmet` leaves the run inconclusive."""
    why: str = ""
    """Of one that was not met: what was found, or why it could not be measured, in words."""

    @property
    def text(self) -> str:
        """`lost: 0 was not met (8 lost, permitted)`, or `lost: 0 was met`."""
        not_met = f"was not met ({self.why})" if self.why else "was not met"
        return f"{self.name}: {self.wanted} {'was met' if self.met == 'met' else not_met}"

    @property
    def reason(self) -> str:
        """The same as one of the reasons for the verdict."""
        return f"Your expectation {self.text}."


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
    backlog_shared_with: list[str] = []
    """Other faults that part of the backlog of the group that drained last may be of (see the glossary)."""
    lag_ended_by: EndedBy | None = None
    """What the lag waited for before it shrank, of the group whose lag grew the longest; null without a
    backlog, or if it grew for less than a second."""
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
    leader_was: Literal["down", "starting"] | None = None
    """What kept it from leading at the election: its process was gone, or had been started again and was not
    unfenced yet. Null if nothing is recorded that did."""
    old_leader: int | None
    """The leader before; null if unknown."""
    old_leader_in_sync: bool | None = None
    """Whether it was in the ISR at the election, so that the change was planned: a preferred leader election,
    by a step, by a tool, or by Kafka's own rebalancing of leaders. False of a leader whose replica was moved
    away, which is planned as well. Null if that is not recorded."""
    unclean: bool | None = None
    """Whether the election was unclean: the new leader was neither in the ISR nor among the eligible leader
    replicas. Null if that is not recorded."""
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
    """Offsets of deposed acknowledgements that hold other messages now."""
    lost_seen: dict[int, int] = {}
    """By broker: how many of the lost messages it was seen to hold."""
    lost_unseen: int | None = None
    """Lost messages that no replica was seen to hold; null if no replica was observed, or if the same leader
    came back.
    """
    lost_unseen_last_ms: float | None = None
    """How long before the old leader's last acknowledgement the first of these was given; null if none."""
    learned: list[Learned] = []
    """When clients had their first acknowledgements from the new leader."""


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
