"""The tables of kaput.evidence/1, column by column: names, types, and what each one means.

The names and types are fixed by the contract; the texts become docs/RUN_FOLDER.md (scripts/reference.py).
Not here: how a table gets onto disk (recorder.py, sealing.py) or is checked (reading.py).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from kaput.evidence.evidence_table import Column, EvidenceTable
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES

# A member went somewhere else by itself: what it is delivered next does not follow what it was delivered
# last.
SEEK = "seek"
GROUP_EVENT_KINDS = (
    "joined",
    "left",
    "killed",
    "assigned",
    "revoked",
    "lost",
    "committed",
    "refused",
    SEEK,
)
# What a member of a share group was handed, what it asked for (flushed before it asks), what a broker
# confirmed, and asks that were refused or of which it is not known whether they took effect.
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
# What a mirror did, and what is known of it (mirror).
MIRROR_EVENT_KINDS = ("started", "stopped", "killed", "lag", "checkpoint", "translated", "drained")
# How a step of the plan ended.
STEP_OUTCOMES = ("done", "failed", "skipped")
CLUSTER = "cluster"  # the column that every table about clusters has
CLUSTER_EVENT_KINDS = ("leader", "isr", "fenced", "unfenced", "started", "stopped")


INT, LONG, TEXT, BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
_BROKERS = pa.list_(INT)

_PRODUCER = Column("producer", INT, "the producer of the message")
_SEQ = Column("seq", LONG, "its number at that producer, from 0")
_FOREIGN = "not a message of this run, or damaged"
_TOPIC, _PARTITION = Column("topic", TEXT, "topic"), Column("partition", INT, "partition")
_OFFSET = Column("offset", LONG, "offset")
_GROUP = Column("group", TEXT, "the group's id")
_MEMBER = Column("member", TEXT, "the member's name; a restarted member keeps it")
_INTACT = Column("intact", BOOL, "false: a message of this run whose checksum is wrong")
_STORE = Column("store", TEXT, "the store's name in the scenario")
# Always the last column: who records (recorder.py) fills it in with the cluster that it belongs to.
_CLUSTER = Column(CLUSTER, TEXT, "the cluster, by its name in the scenario", "the only one", optional=True)
_STORED = (
    replace(_PRODUCER, about="the message's producer", null=_FOREIGN),
    replace(_SEQ, about="the message's number", null=_FOREIGN),
)

_ALL = (
    EvidenceTable(
        "sends",
        "one attempt to send a message: exactly one row for each (producer, seq)",
        "producers, and the sealing of what a killed producer left",
        (
            _PRODUCER,
            _SEQ,
            replace(_TOPIC, about="the topic it was sent to"),
            replace(_PARTITION, about="the partition it was sent to", null="the client did not say"),
            Column("attempt_ns", LONG, "just before the client was called"),
            Column("done_ns", LONG, "when the client reported the outcome", "it never did"),
            Column(
                "outcome",
                TEXT,
                "acked; kept (a store has it); refused (given back to the caller: never sent, in no store); "
                "failed (definitely not written); unknown (anything else)",
            ),
            replace(_OFFSET, about="the offset that was acknowledged", null="none given: acks=0, a retry"),
            Column("error", TEXT, "the client's error", "no error"),
            replace(_CLUSTER, about="the cluster that it was sent to last"),
        ),
        required=True,
    ),
    EvidenceTable(
        "log",
        "one record that a fresh reader found after the run, control records excepted",
        "the drain",
        (
            _TOPIC,
            _PARTITION,
            _OFFSET,
            Column("leader_epoch", INT, "the epoch under which it was written", "the reader does not know"),
            Column("timestamp_ms", LONG, "the record's timestamp, ms since the epoch"),
            *_STORED,
            _INTACT,
            Column("visible", BOOL, "whether read_committed readers get it", "they do", optional=True),
            replace(_CLUSTER, about="the cluster in which it was found"),
        ),
        required=True,
    ),
    EvidenceTable(
        "deliveries",
        "one record that a poll returned to a member of a group",
        "members, after processing the record",
        (
            _GROUP,
            _MEMBER,
            _TOPIC,
            _PARTITION,
            _OFFSET,
            *_STORED,
            _INTACT,
            Column("polled_ns", LONG, "when the poll returned; its order is the order of delivery"),
            replace(_CLUSTER, about="the cluster that the member read"),
        ),
    ),
    EvidenceTable(
        "group_events",
        "something that happened to a member of a group",
        "members; kaput for `killed`",
        (
            _GROUP,
            _MEMBER,
            Column("kind", TEXT, ", ".join(GROUP_EVENT_KINDS)),
            replace(_TOPIC, null="not about one topic"),
            replace(_PARTITION, null="not about one partition: none was assigned, or all were taken away"),
            Column("offset", LONG, "committed: the next to read; assigned: where it begins", "not known"),
            Column("at_ns", LONG, "when the member learned of it"),
            replace(_CLUSTER, about="the cluster that the member read"),
        ),
    ),
    EvidenceTable(
        "share_events",
        "what a member of a share group did with a record",
        "members of share groups; -ing kinds are flushed before the request is sent",
        (
            _GROUP,
            _MEMBER,
            Column("kind", TEXT, ", ".join(SHARE_EVENT_KINDS)),
            _TOPIC,
            _PARTITION,
            _OFFSET,
            Column("delivery_count", INT, "how often Kafka has handed the record out", "Kafka did not say"),
            Column("at_ns", LONG, "when"),
            Column("error", TEXT, "why it failed", "it did not", optional=True),
            replace(_CLUSTER, about="the cluster that the member read"),
        ),
    ),
    EvidenceTable(
        "transactions",
        "one transaction: consecutive messages of one producer",
        "transactional producers and members of pipes",
        (
            Column("transactional_id", TEXT, "the transactional.id"),
            _PRODUCER,
            Column("transaction", LONG, "its number under that id"),
            Column("first_seq", LONG, "its first message"),
            Column("last_seq", LONG, "its last message; one below first_seq: it has none"),
            Column("outcome", TEXT, f"{', '.join(TRANSACTION_OUTCOMES)}: as the coordinator confirmed it"),
            Column("begin_ns", LONG, "when it began"),
            Column("end_ns", LONG, "when the outcome was confirmed", "it never was"),
            Column("error", TEXT, "the client's error", "no error", optional=True),
            _CLUSTER,
        ),
    ),
    EvidenceTable(
        "outputs",
        "one message that a pipe made, and the input that it was made from",
        "members of pipes (groups with `produces`)",
        (
            _GROUP,
            _MEMBER,
            replace(_PRODUCER, about="the output's producer"),
            replace(_SEQ, about="the output's number"),
            replace(_TOPIC, about="the input's topic"),
            replace(_PARTITION, about="the input's partition"),
            replace(_OFFSET, about="the input's offset"),
            replace(_CLUSTER, about="the input's cluster"),
        ),
    ),
    EvidenceTable(
        "kept",
        "one message that a store took: at most one row for each (store, producer, seq)",
        "producers with `on-failure`; the runner, for what a killed producer left in its store",
        (
            _PRODUCER,
            _SEQ,
            _STORE,
            Column("error", TEXT, "why Kafka did not take it", "it was put there before it was sent"),
            Column("tries", INT, "how often it had been sent without an acknowledgement"),
            Column("in_doubt", BOOL, "whether one of these tries may have been stored by Kafka"),
            Column("at_ns", LONG, "when the store confirmed it"),
            replace(_CLUSTER, about="the cluster that did not take it"),
        ),
    ),
    EvidenceTable(
        "replayed",
        "one message that a replay sent and Kafka acknowledged; with transactions: in one that committed",
        "replays; a replay that is killed may leave its last rows out",
        (
            _STORE,
            _PRODUCER,
            _SEQ,
            replace(_TOPIC, about="the topic it was sent to"),
            replace(_PARTITION, about="the partition it was stored in", null="the client did not say"),
            replace(_OFFSET, about="the offset that was acknowledged", null="none given"),
            Column("replay", INT, "which start of the replay sent it, from 1"),
            Column("at_ns", LONG, "when it was acknowledged"),
            replace(_CLUSTER, about="the cluster that it was sent to"),
        ),
    ),
    EvidenceTable(
        "left_in_store",
        "one message that a store still held at the end of the run",
        "the runner, of each store that it could list (`stores` in the manifest)",
        (_STORE, _PRODUCER, _SEQ, replace(_CLUSTER, about="the cluster that it was for")),
    ),
    EvidenceTable(
        "cluster_events",
        "a change of leaders, in-sync replicas or brokers",
        "kaput at the end of the run, from the cluster's own metadata log (or by polling, see `within_ns`)",
        (
            Column("kind", TEXT, ", ".join(CLUSTER_EVENT_KINDS)),
            Column("broker", INT, "fenced to stopped: the node", "about a partition"),
            replace(_TOPIC, null="about a node"),
            replace(_PARTITION, null="about a node"),
            Column("leader", INT, "the leader afterwards, -1 for none", "about a node"),
            Column("leader_epoch", INT, "its epoch", "about a node"),
            Column("isr", _BROKERS, "the in-sync replicas afterwards", "about a node"),
            Column("at_ns", LONG, "when, by the cluster's clock"),
            Column("source", TEXT, "where this is known from"),
            Column("elr", _BROKERS, "the eligible leader replicas (KIP-966)", "not known", optional=True),
            Column("within_ns", LONG, "it was up to so much earlier", "at_ns is exact", optional=True),
            _CLUSTER,
        ),
    ),
    EvidenceTable(
        "end_offsets",
        "how far a partition was read after the run",
        "the drain",
        (
            _TOPIC,
            _PARTITION,
            Column("end_offset", LONG, "the end of the log; if equal to drained_to, `log` is complete"),
            Column("drained_to", LONG, "the first offset that was not read"),
            Column("start_offset", LONG, "the start of the log", "not known", optional=True),
            _CLUSTER,
        ),
    ),
    EvidenceTable(
        "replica_log",
        "a record in the log file of a single replica while a fault was active",
        "kaput, on clusters of its own",
        (
            Column("broker", INT, "the replica"),
            _TOPIC,
            _PARTITION,
            _OFFSET,
            Column("leader_epoch", INT, "the epoch under which it was written"),
            *_STORED,
            Column("seen_ns", LONG, "when it was seen there", "not known"),
            _CLUSTER,
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
            Column("brokers", _BROKERS, "the nodes that were hit; empty for members, producers, topics"),
            Column("injected_ns", LONG, "when the injection began"),
            Column("effective_ns", LONG, "when it took effect", "it never did"),
            Column("healed_ns", LONG, "when its end was confirmed", "it was not"),
            Column("bit", BOOL, "whether it took effect, and lasted until its heal"),
            Column("proof", TEXT, "what the probe measured, in a sentence"),
            replace(_CLUSTER, about="the cluster that was hit", null="the only one, or several"),
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
            replace(_CLUSTER, null="the only one, or about none"),
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
            replace(_GROUP, null="not about a group"),
            replace(_TOPIC, about="the topic, by its name in the target", null="not about one topic"),
            replace(_PARTITION, null="not about one partition"),
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
