"""The tables of kaput.evidence/1 about mirrors between clusters, and the plan by which clients are moved.

All tables: schemas.py.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from kaput.evidence.common_columns import GROUP, LONG, PARTITION, TEXT, TOPIC
from kaput.evidence.evidence_table import Column, EvidenceTable

# Events and measurements of a mirror (mirror).
MIRROR_EVENT_KINDS = ("started", "stopped", "killed", "lag", "checkpoint", "translated", "drained")
# How a step of the plan ended.
STEP_OUTCOMES = ("done", "failed", "skipped")

MIRROR = EvidenceTable(
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
)

PLAN = EvidenceTable(
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
)
