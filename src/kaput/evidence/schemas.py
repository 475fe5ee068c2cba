"""The tables of kaput.evidence/1, column by column. The names and types are fixed by the contract.

Not here: how a table gets onto disk (recorder.py, sealing.py) or is checked (reading.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

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
CLUSTER_EVENT_KINDS = ("leader", "isr", "fenced", "unfenced", "started", "stopped")


@dataclass(frozen=True)
class EvidenceTable:
    """One table: its columns, those a writer may leave out, and whether a sealed run must have it."""

    name: str
    schema: pa.Schema
    required: bool = False
    optional_columns: tuple[str, ...] = ()


def _schema(*columns: tuple[str, pa.DataType] | tuple[str, pa.DataType, bool]) -> pa.Schema:
    """Columns are (name, type), not null, or (name, type, True) where null is allowed."""
    return pa.schema([pa.field(c[0], c[1], nullable=len(c) > 2) for c in columns])


INT, LONG, TEXT, BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()

_ALL = (
    EvidenceTable(
        "sends",
        _schema(
            ("producer", INT),
            ("seq", LONG),
            ("topic", TEXT),
            ("partition", INT, True),
            ("attempt_ns", LONG),
            ("done_ns", LONG, True),
            ("outcome", TEXT),
            ("offset", LONG, True),
            ("error", TEXT, True),
        ),
        required=True,
    ),
    EvidenceTable(
        "log",
        _schema(
            ("topic", TEXT),
            ("partition", INT),
            ("offset", LONG),
            ("leader_epoch", INT, True),
            ("timestamp_ms", LONG),
            ("producer", INT, True),
            ("seq", LONG, True),
            ("intact", BOOL),
            # Whether a reader with read_committed is given it; null: it is.
            ("visible", BOOL, True),
        ),
        required=True,
        optional_columns=("visible",),
    ),
    EvidenceTable(
        "deliveries",
        _schema(
            ("group", TEXT),
            ("member", TEXT),
            ("topic", TEXT),
            ("partition", INT),
            ("offset", LONG),
            ("producer", INT, True),
            ("seq", LONG, True),
            ("intact", BOOL),
            ("polled_ns", LONG),
        ),
    ),
    EvidenceTable(
        "group_events",
        _schema(
            ("group", TEXT),
            ("member", TEXT),
            ("kind", TEXT),
            ("topic", TEXT, True),
            ("partition", INT, True),
            ("offset", LONG, True),
            ("at_ns", LONG),
        ),
    ),
    EvidenceTable(
        "share_events",
        _schema(
            ("group", TEXT),
            ("member", TEXT),
            ("kind", TEXT),
            ("topic", TEXT),
            ("partition", INT),
            ("offset", LONG),
            ("delivery_count", INT, True),
            ("at_ns", LONG),
            ("error", TEXT, True),
        ),
        optional_columns=("error",),
    ),
    EvidenceTable(
        "transactions",
        _schema(
            ("transactional_id", TEXT),
            ("producer", INT),
            ("transaction", LONG),
            ("first_seq", LONG),
            ("last_seq", LONG),  # one below first_seq: of no messages
            ("outcome", TEXT),
            ("begin_ns", LONG),
            ("end_ns", LONG, True),
            ("error", TEXT, True),
        ),
        optional_columns=("error",),
    ),
    EvidenceTable(
        "outputs",
        _schema(
            ("group", TEXT),
            ("member", TEXT),
            ("producer", INT),
            ("seq", LONG),
            # The input that this message was made of.
            ("topic", TEXT),
            ("partition", INT),
            ("offset", LONG),
        ),
    ),
    EvidenceTable(
        "cluster_events",
        _schema(
            ("kind", TEXT),
            ("broker", INT, True),
            ("topic", TEXT, True),
            ("partition", INT, True),
            ("leader", INT, True),
            ("leader_epoch", INT, True),
            ("isr", pa.list_(INT), True),
            ("at_ns", LONG),
            ("source", TEXT),
            # Eligible leader replicas (KIP-966) after the event: who may lead cleanly though outside the ISR.
            ("elr", pa.list_(INT), True),
            # Of what was seen by polling: how much earlier than at_ns it may have been; null: it was then.
            ("within_ns", LONG, True),
        ),
        optional_columns=("elr", "within_ns"),
    ),
    EvidenceTable(
        "end_offsets",
        _schema(
            ("topic", TEXT),
            ("partition", INT),
            ("end_offset", LONG),
            ("drained_to", LONG),
            # Where the log began when it was read: retention or kafka-delete-records removed what is below.
            ("start_offset", LONG, True),
        ),
        optional_columns=("start_offset",),
    ),
    EvidenceTable(
        "replica_log",
        _schema(
            ("broker", INT),
            ("topic", TEXT),
            ("partition", INT),
            ("offset", LONG),
            ("leader_epoch", INT),
            ("producer", INT, True),
            ("seq", LONG, True),
            ("seen_ns", LONG, True),
        ),
    ),
    EvidenceTable(
        "faults",
        _schema(
            ("id", TEXT),
            ("fault", TEXT),
            ("target", TEXT),
            ("brokers", pa.list_(INT)),
            ("injected_ns", LONG),
            ("effective_ns", LONG, True),
            ("healed_ns", LONG, True),
            ("bit", BOOL),
            ("proof", TEXT),
        ),
    ),
    EvidenceTable(
        "samples",
        _schema(
            ("at_ns", LONG),
            ("source", TEXT),
            ("name", TEXT),
            ("labels", pa.map_(TEXT, TEXT)),
            ("value", pa.float64()),
        ),
    ),
)

TABLES: dict[str, EvidenceTable] = {table.name: table for table in _ALL}
