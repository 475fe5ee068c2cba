"""Columns that several tables of kaput.evidence/1 share, and column types. The tables: schemas.py."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from kaput.evidence.evidence_table import Column

CLUSTER = "cluster"  # the column that every table about clusters has
INT, LONG, TEXT, BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
BROKERS = pa.list_(INT)

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
