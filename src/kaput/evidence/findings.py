"""The findings model, kaput.findings/1: the result of analysis and verdict, which every report reads.

Field names are those of the JSON (kebab-case only inside names of anomalies and causes). Its reference
(docs/RUN_FOLDER.md) and its JSON Schema (findings.schema.json) are made of it by scripts/reference.py.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, JsonValue

from kaput.errors import UsageError
from kaput.evidence.findings_claims import (
    Availability,
    Claim,
    Expected,
    FaultFindings,
    LeaderChange,
    Standstill,
    Suspect,
    Unavailability,
)
from kaput.evidence.findings_parts import (
    ClientErrors,
    ClientRequests,
    Delivered,
    Fate,
    FeatureLevels,
    FindingsPart,
    GroupFate,
    GroupFindings,
    KeptFindings,
    LatencyAround,
    MeanRates,
    MirrorFindings,
    PartitionTable,
    Percentiles,
    PlanFindings,
    RebalanceFindings,
    ResizedTopic,
    RunCounts,
    Slump,
    Stored,
    TransactionFindings,
)
from kaput.scenario.nearest import hint
from kaput.scenario.vocabulary import Verdict

__all__ = [
    "Anomaly", "Delivered", "Example", "Fate", "FaultFindings", "Findings", "GroupFate", "GroupFindings",
    "HighWatermarkArithmetic", "Latency", "LeaderChange", "RateFindings", "RunFindings", "Stored",
    "TotalFindings", "Unavailability", "UnreadPartition",
]  # fmt: skip


class RunFindings(FindingsPart):
    """Which run this is about."""

    id: str
    """The run's UUID."""
    folder: str = ""
    """Name of the run folder."""
    scenario: str
    """The scenario's short name."""
    title: str = ""
    """The scenario's title."""
    varied: dict[str, JsonValue] = {}
    """The values that --vary set, by their keys in the scenario."""
    seed: int
    """What the run's random choices were drawn from."""
    kafka: str | None
    """Kafka's version; null if unknown."""
    mode: str
    """kraft or zookeeper."""
    started_ns: int
    """Start of the load."""
    ended_ns: int | None
    """End of the run; null if it never ended in good order."""


class TotalFindings(FindingsPart):
    """Counts over the whole run."""

    sent: int
    """Messages attempted: acked + failed + unknown + kept + refused."""
    acked: int
    """Acknowledged."""
    failed: int
    """Definitely not written."""
    unknown: int
    """Without a definite outcome."""
    kept: int = 0
    """Not acknowledged, and taken by a store."""
    refused: int = 0
    """Given back to their caller: never sent, and in no store."""
    log_records: int
    """Records that the drain read."""
    stored_messages: int
    """Distinct messages among them."""
    foreign_records: int = 0
    """Intact records of other programs."""
    unread: int = 0
    """Messages not found whose partition was not read to its end."""
    uncommitted: int = 0
    """Messages of transactions that never committed."""


class Example(FindingsPart):
    """One of the rows behind a count."""

    producer: int | None = None
    """The message's producer; null if the record is no message."""
    seq: int | None = None
    """The message's number; null if the record is no message."""
    topic: str | None = None
    """Topic; null if unknown."""
    partition: int | None = None
    """Partition; null if unknown."""
    offset: int | None = None
    """Offset; null if unknown."""
    story: str
    """What happened, in a sentence."""


class Anomaly(FindingsPart):
    """One anomaly's exact count; violations are count minus permitted and unclear."""

    name: str
    """The anomaly: every name of the glossary is present, with 0 if nothing was found."""
    count: int
    """How often."""
    permitted: int
    """Of these, what the configuration permits."""
    unclear: int = 0
    """Of these, those of which it is not known whether the configuration permits them."""
    group: str | None = None
    """The group; null for anomalies of the run itself."""
    causes: dict[str, int] = {}
    """Of lost and vanished messages and inconsistent offsets: how many by cause. Of duplicates and reordered
    messages: `replay`, those that a store had. Of lost-in-store: `store`, or `kafka` where a replay had been
    given an acknowledgement.
    """
    counts: dict[str, int] = {}
    """Of anomalies that are also counted by topic, producer or mirror: how many of each."""
    extra_copies: int | None = None
    """Of duplicates: stored copies beyond the first; null for other anomalies."""
    examples: list[Example] = []
    """Up to ten."""

    @property
    def forbidden(self) -> int:
        """Violations."""
        return self.count - self.permitted - self.unclear


class HighWatermarkArithmetic(FindingsPart):
    """What subtracting end offsets from acknowledgements would have shown."""

    acked: int
    """Acknowledged messages."""
    end_offsets: int
    """Sum of the end offsets, without `mirrored`."""
    mirrored: int | None = None
    """Mirrored copies that readers are given; null in findings of an older kaput."""
    difference: int
    """Their difference, which hides a loss behind a stored but unacknowledged message."""
    holes: int | None = None
    """Offsets below the end offsets without a record that was read: markers of transactions, and what was
    removed, never stored or not read; null if an end offset is unknown."""
    markers: dict[str, int] = {}
    """All holes by cluster ("" where a run has one cluster), if they can only be markers of transactions:
    every log begins at 0 and was read to its end, none is compacted, and nothing that was acknowledged is
    gone. Else empty."""


class UnreadPartition(FindingsPart):
    """A partition that was not read to its end."""

    topic: str
    """Topic."""
    partition: int
    """Partition."""
    drained_to: int | None
    """The first offset that was not read; null if no end offset is recorded."""
    end_offset: int | None
    """The end of its log; null if none is recorded."""


class Latency(FindingsPart):
    """Latencies of the run."""

    ack: Percentiles
    """From the attempt to the acknowledgement."""
    end_to_end: Percentiles
    """From the attempt to the first delivery, over all groups."""
    around_faults: list[LatencyAround] = []
    """The same before, during and after the faults; empty without faults."""


class RateFindings(FindingsPart):
    """Rates over the load."""

    sent_per_s: float
    """Mean, from the first attempt to the last."""
    acked_per_s: float
    """Mean, from the first attempt to the last acknowledgement."""
    ordered_per_s: float | None = None
    """The configured rate of all producers together; null unless each has one."""
    cpu_us_per_message: float | None = None
    """CPU time of all nodes from the first attempt to the last acknowledgement, in microseconds for each
    acknowledged message. Of a cluster that several runs share each has an equal share. Null if unknown."""
    cpu_processes_begun: int = 0
    """Of the processes whose CPU time that is, those that began meanwhile, such as restarted brokers: the CPU
    time of their start is included."""
    slumps: list[Slump] = []
    """Empty unless each producer has a rate."""
    means: list[MeanRates] = []
    """Empty unless each producer has a rate."""


class Findings(RunCounts, FindingsPart):
    """findings.json. In Python the anomalies are attributes, too: `findings.lost`."""

    schema_: Literal["kaput.findings/1"] = Field(default="kaput.findings/1", alias="schema")
    """The version of this format."""
    run: RunFindings
    """Which run."""
    verdict: Verdict
    """held, violated or inconclusive: the worse of Kafka's promise and the scenario's expectations."""
    promise: Verdict | None = None
    """Whether Kafka kept its promise, whatever the scenario expects; null in findings of an older kaput."""
    reasons: list[str]
    """Why, in sentences."""
    totals: TotalFindings
    """Counts over the whole run."""
    fates: list[Fate]
    """Every message exactly once: the counts add up to totals.sent."""
    groups: list[GroupFindings]
    """Consumer groups."""
    anomalies: list[Anomaly]
    """One entry for each anomaly; those of groups have one for each group."""
    high_watermark_arithmetic: HighWatermarkArithmetic
    """The usual arithmetic, for comparison."""
    faults: list[FaultFindings]
    """By injection."""
    leader_changes: list[LeaderChange] = []
    """Changes of leader that a fault caused, or that overwrote acknowledgements."""
    led_elsewhere: dict[str, int] = {}
    """By topic that no client of the run uses, such as Kafka's own: partitions that got another leader."""
    partition_tables: list[PartitionTable] = []
    """Leaders and in-sync replicas before, during and after the faults."""
    rebalances: list[RebalanceFindings] = []
    """Of all groups."""
    resized: list[ResizedTopic] = []
    """Topics that got more partitions."""
    unread_partitions: list[UnreadPartition] = []
    """Partitions that were not read to their end: they make the run inconclusive."""
    kept: KeptFindings | None = None
    """Messages that stores kept; null without stores."""
    mirrors: list[MirrorFindings] = []
    """Mirrors between clusters."""
    plan: PlanFindings | None = None
    """The plan by which clients were moved to another cluster; null without one."""
    transactions: TransactionFindings | None = None
    """Null without transactions."""
    unavailability: list[Unavailability]
    """The longest silence of each producer in each partition."""
    standstills: list[Standstill] = []
    """Of all partitions together, of single ones, and the same for each group: of each the 100 longest."""
    standstills_left_out: int = 0
    """How many more there were."""
    availability: list[Availability] = []
    """Of acknowledgements, then of each group: of all partitions together, then of single ones."""
    suspects: list[Suspect] = []
    """Producers whose acknowledgements cannot be Kafka's."""
    features: list[FeatureLevels] = []
    """Levels of Kafka's features, by cluster; empty if they are not recorded."""
    requests: list[ClientRequests] = []
    """Which clients used which versions of which requests; empty if brokers did not record it."""
    client_errors: list[ClientErrors] = []
    """Errors that clients met, by kind of client."""
    expectations: list[Expected] = []
    """What the scenario expects, and what came of it."""
    latency_ms: Latency
    """Latencies of the run."""
    rates: RateFindings
    """Rates over the load."""
    claims: list[Claim] = []
    """What this document says about the record beyond counts; empty in findings of an older kaput."""
    notes: list[str] = []
    """What else a reader should know: limits of the evidence, ignored samples."""

    def model_post_init(self, context: Any, /) -> None:
        """Gives each group its own counts."""
        for group in self.groups:
            group._counts = {a.name: a.count for a in self.anomalies if a.group == group.group}

    def anomaly(self, name: str) -> list[Anomaly]:
        """The entries of an anomaly: one, or one per group."""
        return [a for a in self.anomalies if a.name == name]

    def total(self, anomaly: str) -> int:
        """The count of an anomaly, over all groups."""
        return sum(a.count for a in self.anomalies if a.name == anomaly)

    def group(self, name: str) -> GroupFindings:
        """The group with this id. Raises UsageError naming the most similar one."""
        groups = {group.group: group for group in self.groups}
        if name not in groups:
            raise UsageError(f"no group {name}; {hint(name, groups) if groups else 'the run has none'}")
        return groups[name]

    def to_json(self) -> str:
        return self.model_dump_json(by_alias=True, indent=2)
