"""The tables of kaput.evidence/1 about stores of messages that Kafka did not take. All tables: schemas.py."""

from __future__ import annotations

from dataclasses import replace

from kaput.evidence.common_columns import (
    BOOL,
    INT,
    LONG,
    OF_CLUSTER,
    OFFSET,
    PARTITION,
    PRODUCER,
    SEQ,
    STORE,
    TEXT,
    TOPIC,
)
from kaput.evidence.evidence_table import Column, EvidenceTable

KEPT = EvidenceTable(
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
)

REPLAYED = EvidenceTable(
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
)

LEFT_IN_STORE = EvidenceTable(
    "left_in_store",
    "one message that a store still held at the end of the run",
    "the runner, of each store that it could list (`stores` in the manifest)",
    (STORE, PRODUCER, SEQ, replace(OF_CLUSTER, about="the cluster that it was for")),
)
