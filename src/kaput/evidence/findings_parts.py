"""Parts of the findings: rates, partitions, transactions, kept messages, versions; and counts of anomalies as
attributes, such as `findings.lost`, each exact, including permitted ones. The document: findings.py.

Times are ns since the epoch (`_ns`) or durations in ms (`_ms`); terms are defined in docs/GLOSSARY.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict

from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES, attribute
from kaput.scenario.block import Described

When = Literal["before", "during", "after"]


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
    """Whether the leader's process was gone, and no other leader had been elected yet."""
    created: bool = True
    """False if the partition did not exist yet: the cluster's own record of it begins later."""


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
