"""Parts of the findings: rates, partitions, transactions, kept messages, versions, fates, groups, mirrors,
the plan of a move; and counts of anomalies as attributes, such as `findings.lost`, each exact, including
permitted ones. The document: findings.py.

Times are ns since the epoch (`_ns`) or durations in ms (`_ms`); terms are defined in docs/GLOSSARY.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, PrivateAttr

from kaput.evidence.comparisons import Status
from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES, attribute
from kaput.scenario.block import Described
from kaput.scenario.vocabulary import GroupType, Isolation

When = Literal["before", "during", "after"]
Stored = Literal["0", "1", "n", "unread", "uncommitted"]
Delivered = Literal["0", "1", "n"]


class FindingsPart(Described):
    """A frozen piece of the document."""

    model_config = ConfigDict(extra="forbid")


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
    """Before: done before the first fault that took effect was injected. After: attempted after the last
    heal. During: all others.
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
    """Whether the leader's process was gone, and no other leader had been elected yet."""
    created: bool = True
    """False if the partition did not exist yet: the cluster's own record of it begins later."""
    deleted: bool = False
    """Whether a step had deleted the topic, and nothing had created it again."""


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
    """When producers of one kind of client had their first acknowledgements from a new leader."""

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


class KeptFates(FindingsPart):
    """What became of kept messages: delivered later + waiting + lost in store + unclear = kept."""

    kept: int
    """Messages that a store had and that were not acknowledged to their producer."""
    delivered_later: int
    """Of these, stored in Kafka."""
    waiting: int
    """Not stored, and still in a store."""
    lost_in_store: int
    """Not stored, and in no store any more."""
    unclear: int
    """Not stored as far as is known: their store or their topic was not read to the end."""
    kept_for_p50_s: float | None = None
    """Median time (within 2 %) from when the store had it to its acknowledgement to a replay; null without
    any.
    """
    kept_for_max_s: float | None = None
    """The longest such time; null without any."""


class KeptAtStore(KeptFates):
    """The same of the messages that one store had; one that two stores had counts for each."""

    store: str
    """The store's name."""
    kind: str | None = None
    """sqlite, failure-log, mongodb, elasticsearch or opensearch; null if unknown."""
    read: bool
    """Whether it could be listed at the end of the run."""


class KeptFindings(KeptFates):
    """Messages that stores kept."""

    lost_after_replay: int = 0
    """Of lost_in_store: Kafka had acknowledged them to a replay, so that the loss is Kafka's."""
    in_doubt: int = 0
    """Kept messages that Kafka may have stored before."""
    duplicates: int = 0
    """Messages that a store had and that are stored more than once."""
    stored_and_left: int = 0
    """Messages that are stored and still in a store: another replay would send them again."""
    without_row: int = 0
    """Kept messages of which no row says which store has them."""
    stores: list[KeptAtStore] = []
    """By store."""

    @property
    def words(self) -> str:
        """`43,211 kept by a store, all delivered later`."""
        counts = {
            "delivered later": self.delivered_later,
            "waiting there": self.waiting,
            "lost in store": self.lost_in_store,
            "unclear": self.unclear,
        }
        found = [(what, n) for what, n in counts.items() if n]
        fates = [f"all {found[0][0]}"] if len(found) == 1 else [f"{n:,} {what}" for what, n in found]
        joined = f" ({', '.join(fates)})" if len(fates) > 1 else f", {fates[0]}" if fates else ""
        return f"{self.kept:,} kept by {'a store' if len(self.stores) < 2 else 'stores'}{joined}"


NOTHING_KEPT = KeptFindings(kept=0, delivered_later=0, waiting=0, lost_in_store=0, unclear=0)


class FeatureLevels(FindingsPart):
    """Levels of Kafka's features, as a broker answered."""

    cluster: str | None
    """Which of several clusters; null: the only one."""
    levels: dict[str, int]
    """By feature, when the load began; what is at level 0 is left out."""
    changed: dict[str, int] = {}
    """Those that were at another level at the end of the run."""


class ClientRequests(FindingsPart):
    """What one kind of clients sent, as the brokers saw it."""

    client: str
    """Who: producers or a group with their client, or, for other clients, the client id."""
    libraries: list[str] = []
    """Its library with its version, as its processes reported it; empty if they did not."""
    requests: dict[str, list[int]] = {}
    """By Kafka's name of a request: the versions of it that were used."""


class ClientErrors(FindingsPart):
    """Errors that one kind of clients met."""

    client: str
    """Who: producers or a group with their client; others: clients of another kind, and nodes."""
    answered: dict[str, int] = {}
    """By request and error, how many of its requests a fault in the protocol answered with it (of each fault
    and broker, 10,000 are recorded)."""
    messages: dict[str, int] = {}
    """By the error that its library gave, how many of its messages were not acknowledged."""
    transactions: dict[str, int] = {}
    """By the error that its library gave, how many of its transactions were not committed."""


class GroupCounts:
    """Has an attribute for each group anomaly; in Findings, its sum over all groups."""

    if TYPE_CHECKING:

        def __getattr__(self, anomaly: str) -> int: ...


class RunCounts(GroupCounts):
    """Also has an attribute for each anomaly of the run."""


def _count_of(anomaly: str) -> property:
    return property(lambda findings: findings.total(anomaly))


for _counts, _anomalies in ((GroupCounts, GROUP_ANOMALIES), (RunCounts, RUN_ANOMALIES)):
    for _name in _anomalies:
        setattr(_counts, attribute(_name), _count_of(_name))


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
    """Its first record of a partition that it was assigned then; null without one."""


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
    removed: int = 0
    """Of these, not in the target, whose topic removed them as configured (compaction, retention)."""
    unmirrored: int
    """Of these, not in the target otherwise, which was read to its end."""
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
