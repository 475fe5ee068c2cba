"""The tables of kaput.evidence/1: names, types and meanings of all columns.

Names and types are fixed by the contract; the texts become docs/RUN_FOLDER.md (scripts/reference.py). Not
here: how a table gets onto disk (recorder.py, sealing.py) or is checked (reading.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES


@dataclass(frozen=True)
class Column:
    """One column. `null`: what null means there; None: it is never null."""

    name: str
    type: pa.DataType
    about: str
    null: str | None = None
    optional: bool = False  # whether a writer may leave the column out


@dataclass(frozen=True)
class EvidenceTable:
    """One table. `about`: what a row is; `writer`: who writes it; `required`: a sealed run must have it."""

    name: str
    about: str
    writer: str
    columns: tuple[Column, ...]
    required: bool = False

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type, nullable=c.null is not None) for c in self.columns])

    @property
    def optional_columns(self) -> tuple[str, ...]:
        """Columns that a writer may leave out."""
        return tuple(column.name for column in self.columns if column.optional)


CLUSTER = "cluster"  # the column that every table about clusters has
INT, LONG, TEXT, BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
BROKERS, TIMES = pa.list_(INT), pa.list_(LONG)

PRODUCER = Column("producer", INT, "the producer of the message")
SEQ = Column("seq", LONG, "its number at that producer, from 0")
_FOREIGN = "not a message of this run, or damaged"
TOPIC, PARTITION = Column("topic", TEXT, "topic"), Column("partition", INT, "partition")
OFFSET = Column("offset", LONG, "offset")
GROUP = Column("group", TEXT, "the group's id")
MEMBER = Column("member", TEXT, "the member's name; a restarted member keeps it")
INTACT = Column("intact", BOOL, "false: a message of this run whose checksum is wrong")
STORE = Column("store", TEXT, "the store's name in the scenario")
# Always the last column: a Recorder fills it in with its own cluster.
OF_CLUSTER = Column(CLUSTER, TEXT, "the cluster, by its name in the scenario", "the only one", optional=True)
STORED = (
    replace(PRODUCER, about="the message's producer", null=_FOREIGN),
    replace(SEQ, about="the message's number", null=_FOREIGN),
)


# Events and measurements of a mirror (mirror).
MIRROR_EVENT_KINDS = ("started", "stopped", "killed", "lag", "checkpoint", "translated", "drained")
# How a step of the plan ended.
STEP_OUTCOMES = ("done", "failed", "skipped")


LAG, STABLE, WATERMARK = "lag", "last_stable_offset", "high_watermark"
GROUP_LAG = "group_lag"  # of a group as a whole, for writers who do not know that of each partition (LAG)
CPU = "cpu_s"  # CPU seconds that a node's process has used
READ = frozenset({LAG, GROUP_LAG, STABLE, WATERMARK, CPU})  # what the analysis reads
_LIMIT = 2**53  # from here on a float cannot represent every integer


def whole(value: float) -> bool:
    """Whether a value can be a count, or -1 for none."""
    return math.isfinite(value) and -1 <= value < _LIMIT


def countable(name: str, value: float) -> bool:
    """Whether a sample's value is valid for its name. Samples that are not read are always valid."""
    return name not in READ or (whole(value) and value >= 0)


# A member changed its position itself: its next delivery does not continue from its last one.
SEEK = "seek"
# A member, or an operator for its group, passed over records on purpose.
SKIPPED = "skipped"
GROUP_EVENT_KINDS = (
    "joined", "left", "killed", "assigned", "revoked", "lost", "committed", "refused", SEEK, SKIPPED,
)  # fmt: skip
# What a member of a share group acquired, what it requested (flushed before the request), what a broker
# confirmed, and requests that were refused or may not have taken effect.
SHARE_EVENT_KINDS = (
    "acquired",
    "accepting",
    "releasing",
    "rejecting",
    "accepted",
    "released",
    "rejected",
    "failed",
)
CLUSTER_EVENT_KINDS = ("leader", "isr", "fenced", "unfenced", "started", "stopped")

_ALL = (
    EvidenceTable(
        "sends",
        "one attempt to send a message: exactly one row for each (producer, seq)",
        "producers, and the sealing of what a killed producer left",
        (
            PRODUCER,
            SEQ,
            replace(TOPIC, about="the topic it was sent to"),
            replace(PARTITION, about="the partition it was sent to", null="the client did not say"),
            Column("attempt_ns", LONG, "just before the client was called"),
            Column("done_ns", LONG, "when the client reported the outcome", "it never did"),
            Column(
                "outcome",
                TEXT,
                "acked; kept (a store has it); refused (given back to the caller: never sent, in no store); "
                "failed (definitely not written); unknown (anything else)",
            ),
            replace(OFFSET, about="the offset that was acknowledged", null="none given: acks=0, a retry"),
            Column("error", TEXT, "the client's error", "no error"),
            replace(OF_CLUSTER, about="the cluster that it was sent to last"),
        ),
        required=True,
    ),
    EvidenceTable(
        "log",
        "one record that a fresh reader found after the run, control records excepted",
        "the drain",
        (
            TOPIC,
            PARTITION,
            OFFSET,
            Column("leader_epoch", INT, "the epoch under which it was written", "the reader does not know"),
            Column("timestamp_ms", LONG, "the record's timestamp, ms since the epoch"),
            *STORED,
            INTACT,
            Column("visible", BOOL, "whether read_committed readers get it", "they do", optional=True),
            replace(OF_CLUSTER, about="the cluster in which it was found"),
        ),
        required=True,
    ),
    EvidenceTable(
        "deliveries",
        "one record that a poll returned to a member of a group",
        "members, after processing the record",
        (
            GROUP,
            MEMBER,
            TOPIC,
            PARTITION,
            OFFSET,
            *STORED,
            INTACT,
            Column(
                "polled_ns",
                LONG,
                "when it was handed over: the poll returned, and, where a member processes records one at a "
                "time, the one before was processed; its order is the order of delivery",
            ),
            replace(OF_CLUSTER, about="the cluster that the member read"),
        ),
    ),
    EvidenceTable(
        "group_events",
        "something that happened to a member of a group",
        "members; kaput for `killed`",
        (
            GROUP,
            MEMBER,
            Column("kind", TEXT, ", ".join(GROUP_EVENT_KINDS)),
            replace(TOPIC, null="not about one topic"),
            replace(PARTITION, null="not about one partition: none was assigned, or all were taken away"),
            Column(
                "offset",
                LONG,
                "committed: the next to read; assigned: where it begins; skipped: the first passed over",
                "not known",
            ),
            Column("at_ns", LONG, "when the member learned of it"),
            Column("until", LONG, "skipped: the next to read", "nothing was skipped", optional=True),
            replace(OF_CLUSTER, about="the cluster that the member read"),
        ),
    ),
    EvidenceTable(
        "share_events",
        "what a member of a share group did with a record",
        "members of share groups; -ing kinds are flushed before the request is sent",
        (
            GROUP,
            MEMBER,
            Column("kind", TEXT, ", ".join(SHARE_EVENT_KINDS)),
            TOPIC,
            PARTITION,
            OFFSET,
            Column("delivery_count", INT, "how often Kafka has handed the record out", "Kafka did not say"),
            Column("at_ns", LONG, "when"),
            Column("error", TEXT, "why it failed", "it did not", optional=True),
            replace(OF_CLUSTER, about="the cluster that the member read"),
        ),
    ),
    EvidenceTable(
        "transactions",
        "one transaction: consecutive messages of one producer",
        "transactional producers and members of pipes",
        (
            Column("transactional_id", TEXT, "the transactional.id"),
            PRODUCER,
            Column("transaction", LONG, "its number under that id"),
            Column("first_seq", LONG, "its first message"),
            Column("last_seq", LONG, "its last message; one below first_seq: it has none"),
            Column("outcome", TEXT, f"{', '.join(TRANSACTION_OUTCOMES)}: as the coordinator confirmed it"),
            Column("begin_ns", LONG, "when it began"),
            Column("end_ns", LONG, "when the outcome was confirmed", "it never was"),
            Column("error", TEXT, "the client's error", "no error", optional=True),
            OF_CLUSTER,
        ),
    ),
    EvidenceTable(
        "outputs",
        "one message that a pipe made, and the input that it was made from",
        "members of pipes (groups with `produces`)",
        (
            GROUP,
            MEMBER,
            replace(PRODUCER, about="the output's producer"),
            replace(SEQ, about="the output's number"),
            replace(TOPIC, about="the input's topic"),
            replace(PARTITION, about="the input's partition"),
            replace(OFFSET, about="the input's offset"),
            replace(OF_CLUSTER, about="the input's cluster"),
        ),
    ),
    EvidenceTable(
        "kept",
        "one message that a store took: at most one row for each (store, producer, seq)",
        "producers with `on-failure`; the runner, for what a killed producer left in its store",
        (
            PRODUCER,
            SEQ,
            STORE,
            Column("error", TEXT, "why Kafka did not take it", "it was put there before it was sent"),
            Column("tries", INT, "how often it had been sent without an acknowledgement"),
            Column("in_doubt", BOOL, "whether one of these tries may have been stored by Kafka"),
            Column("at_ns", LONG, "when the store confirmed it"),
            replace(OF_CLUSTER, about="the cluster that did not take it"),
        ),
    ),
    EvidenceTable(
        "replayed",
        "one message that a replay sent and Kafka acknowledged; with transactions: in one that committed",
        "replays; a replay that is killed may leave its last rows out",
        (
            STORE,
            PRODUCER,
            SEQ,
            replace(TOPIC, about="the topic it was sent to"),
            replace(PARTITION, about="the partition it was stored in", null="the client did not say"),
            replace(OFFSET, about="the offset that was acknowledged", null="none given"),
            Column("replay", INT, "which start of the replay sent it, from 1"),
            Column("at_ns", LONG, "when it was acknowledged"),
            replace(OF_CLUSTER, about="the cluster that it was sent to"),
        ),
    ),
    EvidenceTable(
        "left_in_store",
        "one message that a store still held at the end of the run",
        "the runner, of each store that it could list (`stores` in the manifest)",
        (STORE, PRODUCER, SEQ, replace(OF_CLUSTER, about="the cluster that it was for")),
    ),
    EvidenceTable(
        "cluster_events",
        "a change of leaders, in-sync replicas or brokers",
        "kaput at the end of the run, from the cluster's own metadata log (or by polling, see `within_ns`)",
        (
            Column("kind", TEXT, ", ".join(CLUSTER_EVENT_KINDS)),
            Column("broker", INT, "fenced to stopped: the node", "about a partition"),
            replace(TOPIC, null="about a node"),
            replace(PARTITION, null="about a node"),
            Column("leader", INT, "the leader afterwards, -1 for none", "about a node"),
            Column("leader_epoch", INT, "its epoch", "about a node"),
            Column("isr", BROKERS, "the in-sync replicas afterwards", "about a node"),
            Column("at_ns", LONG, "when, by the cluster's clock"),
            Column("source", TEXT, "where this is known from"),
            Column("elr", BROKERS, "the eligible leader replicas (KIP-966)", "not known", optional=True),
            Column("within_ns", LONG, "it was up to so much earlier", "at_ns is exact", optional=True),
            OF_CLUSTER,
        ),
    ),
    EvidenceTable(
        "end_offsets",
        "how far a partition was read after the run",
        "the drain",
        (
            TOPIC,
            PARTITION,
            Column("end_offset", LONG, "the end of the log; if equal to drained_to, `log` is complete"),
            Column("drained_to", LONG, "the first offset that was not read"),
            Column("start_offset", LONG, "the start of the log", "not known", optional=True),
            OF_CLUSTER,
        ),
    ),
    EvidenceTable(
        "replica_log",
        "a record in the log file of a single replica while a fault was active",
        "kaput, on clusters of its own",
        (
            Column("broker", INT, "the replica"),
            TOPIC,
            PARTITION,
            OFFSET,
            Column("leader_epoch", INT, "the epoch under which it was written"),
            *STORED,
            Column("seen_ns", LONG, "when it was seen there", "not known"),
            OF_CLUSTER,
        ),
    ),
    EvidenceTable(
        "faults",
        "one injected fault",
        "the nemesis",
        (
            Column("id", TEXT, "unique in the run: the step's number and the fault"),
            Column("fault", TEXT, "its name ([FAULTS](FAULTS.md))"),
            Column("target", TEXT, "the target as the scenario has it"),
            Column("brokers", BROKERS, "the nodes that were hit; empty for members, producers, topics"),
            Column("injected_ns", LONG, "when the injection began"),
            Column("effective_ns", LONG, "when it took effect", "it never did"),
            Column("healed_ns", LONG, "when its end was confirmed", "it was not"),
            Column("bit", BOOL, "whether it took effect, and lasted until its heal"),
            Column("proof", TEXT, "what the probe measured, in a sentence"),
            Column("event", TEXT, "the event that it began at", "it waited for none", optional=True),
            Column(
                "event_ns", LONG, "when that happened, according to its recorder", "unknown", optional=True
            ),
            Column("noticed_ns", LONG, "when kaput noticed it", "it waited for none", optional=True),
            Column("heal_began_ns", LONG, "when its heal began", "it was not, or unknown", optional=True),
            replace(OF_CLUSTER, about="the cluster that was hit", null="the only one, or several"),
            Column(
                "toggles_ns",
                TIMES,
                "of a flap: when the link worked again, and when it was cut again, in turn",
                "not a flap, or unknown",
                optional=True,
            ),
        ),
    ),
    EvidenceTable(
        "frames",
        "a request that matched a fault in the protocol: all that were acted upon, and the first that passed",
        "the nemesis, from the proxies in front of the brokers; at most 10,000 and 100 by fault and broker",
        (
            Column("fault", TEXT, "the fault's id"),
            Column("broker", INT, "the broker that was asked"),
            Column("api", TEXT, "the request, by Kafka's name"),
            Column("api_version", INT, "its version"),
            Column("correlation_id", INT, "its correlation id"),
            Column("client_id", TEXT, "what its sender calls itself", "it does not say"),
            Column("connection", TEXT, "the sender's address and port"),
            Column("action", TEXT, "what was done to it", "it passed"),
            Column("at_ns", LONG, "when it came to the proxy"),
            OF_CLUSTER,
        ),
    ),
    EvidenceTable(
        "requests",
        "the first request of a kind, of one version and one client id, that a broker authorized",
        "brokers of kaput's own clusters without security (cluster/java/RequestVersions.java)",
        (
            Column("broker", INT, "the broker"),
            Column("client_id", TEXT, "the client's client.id"),
            Column("api", TEXT, "Kafka's name of the request, such as EndTxn"),
            Column("version", INT, "the version of the request"),
            Column("at_ns", LONG, "when, in whole milliseconds"),
            OF_CLUSTER,
        ),
    ),
    EvidenceTable(
        "samples",
        "one value that was measured during the run",
        "kaput: counts of messages, leaders, lag of groups, last stable offsets",
        (
            Column("at_ns", LONG, "when"),
            Column("source", TEXT, "which sampler"),
            Column("name", TEXT, "what was measured"),
            Column("labels", pa.map_(TEXT, TEXT), "of what: topic, partition, group, ..."),
            Column("value", pa.float64(), "the value"),
            replace(OF_CLUSTER, null="the only one, or about none"),
        ),
    ),
    EvidenceTable(
        "mirror",
        "something that happened to a mirror between two clusters, or that was measured of it",
        "kaput: what it did to the mirror's process, and what it read from the mirror's own topics",
        (
            Column("mirror", TEXT, "source and target, as in `dc1->dc2`"),
            Column(
                "kind",
                TEXT,
                f"{', '.join(MIRROR_EVENT_KINDS)}. lag: `value` records of the source are not mirrored yet; "
                "checkpoint: the mirror says that a group's position `source_offset` is `target_offset` in "
                "the target; translated: the group really began there after it was moved; drained: "
                "everything of the partition below `source_offset` has been mirrored",
            ),
            replace(GROUP, null="not about a group"),
            replace(TOPIC, about="the topic, by its name in the target", null="not about one topic"),
            replace(PARTITION, null="not about one partition"),
            Column("source_offset", LONG, "the offset in the source", "not known, or not about one"),
            Column("target_offset", LONG, "the offset in the target", "not known, or not about one"),
            Column("value", pa.float64(), "the lag in records", "no lag"),
            Column("at_ns", LONG, "when"),
        ),
    ),
    EvidenceTable(
        "plan",
        "one step of the plan by which clients are moved to another cluster",
        "kaput",
        (
            Column("step", TEXT, "its number in the plan, from 1, and its word: `2 fence`"),
            Column("kind", TEXT, "its word"),
            Column("started_ns", LONG, "when it began"),
            Column("ended_ns", LONG, "when it was over", "it never was"),
            Column("outcome", TEXT, f"{', '.join(STEP_OUTCOMES)}"),
            Column("proof", TEXT, "what shows that it is done, or why not, in a sentence"),
        ),
    ),
)

TABLES: dict[str, EvidenceTable] = {table.name: table for table in _ALL}
