"""Topics that got more partitions while in use."""

from __future__ import annotations

from kaput.evidence.findings_parts import ResizedTopic
from kaput.report.document import NamedPart, Section, table_of
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
    groups = table_of(
        topic.groups,
        {
            "group": lambda group: group.group,
            "partitions read": lambda group: group.partitions_read,
            "out of order by key": lambda group: group.out_of_order_by_key,
            "stored too early to be seen": lambda group: group.stored_too_early,
        },
    )
    return NamedPart(topic.topic, text, [groups] if groups.rows else [])
