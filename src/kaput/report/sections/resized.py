"""Topics that got more partitions while in use."""

from __future__ import annotations

from kaput.evidence.findings_parts import ResizedTopic
from kaput.report.document import NOTHING, NamedPart, Section, Table
from kaput.report.sections import JudgedRun


def section(run: JudgedRun) -> Section | None:
    """A sentence and a table for each resized topic."""
    items = [_item(topic) for topic in run.findings.resized]
    return Section("Resized topics", items, detail=True) if items else None


def _item(topic: ResizedTopic) -> NamedPart:
    text = f"{topic.partitions_before:,} partitions, then {topic.partitions:,}, "
    text += f"{topic.partitions_written:,} of them written"
    if topic.keys is not None:
        text += f"; {topic.keys_moved or 0:,} of {topic.keys:,} keys moved to another partition"
    header = ["group", "partitions read", "out of order by key", "stored too early to be seen"]
    rows = [
        [
            group.group,
            f"{group.partitions_read:,}",
            NOTHING if group.out_of_order_by_key is None else f"{group.out_of_order_by_key:,}",
            f"{group.stored_too_early:,}",
        ]
        for group in topic.groups
    ]
    return NamedPart(topic.topic, text, [Table(header, rows)] if rows else [])
