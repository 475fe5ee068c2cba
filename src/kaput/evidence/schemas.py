"""The tables of kaput.evidence/1: names, types and meanings of all columns.

Names and types are fixed by the contract; the texts become docs/RUN_FOLDER.md (scripts/reference.py). Tables
that few runs have: store_tables.py, mirror_tables.py, request_tables.py. Shared columns: common_columns.py.
Not here: how a table gets onto disk (recorder.py, sealing.py) or is checked (reading.py).
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from kaput.evidence.common_columns import (
    BOOL,
    BROKERS,
    GROUP,
    INT,
    INTACT,
    LONG,
    MEMBER,
    OF_CLUSTER,
    OFFSET,
    PARTITION,
    PRODUCER,
    SEQ,
    STORED,
    TEXT,
    TOPIC,
)
from kaput.evidence.evidence_table import Column, EvidenceTable
from kaput.evidence.mirror_tables import MIRROR, PLAN
from kaput.evidence.request_tables import FRAMES, REQUESTS
from kaput.evidence.store_tables import KEPT, LEFT_IN_STORE, REPLAYED
from kaput.scenario.vocabulary import TRANSACTION_OUTCOMES

# A member changed its position itself: its next delivery does not continue from its last one.
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
            Column("offset", LONG, "committed: the next to read; assigned: where it begins", "not known"),
            Column("at_ns", LONG, "when the member learned of it"),
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
    KEPT,
    REPLAYED,
    LEFT_IN_STORE,
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
        ),
    ),
    FRAMES,
    REQUESTS,
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
    MIRROR,
    PLAN,
)

TABLES: dict[str, EvidenceTable] = {table.name: table for table in _ALL}
