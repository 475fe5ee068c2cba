"""Topics that got more partitions while they were used, as text."""

from __future__ import annotations

from rich.text import Text

from kaput.evidence.findings import Findings
from kaput.evidence.findings_parts import ResizedTopic
from kaput.report.layout import NOTHING, columns


def resized_text(findings: Findings) -> Text:
    """A sentence and a table for each; nothing where none did."""
    return Text("\n").join(_topic(one) for one in findings.resized)


def _topic(one: ResizedTopic) -> Text:
    said = f"  {one.topic}: {one.partitions_before:,} partitions, then {one.partitions:,}, "
    said += f"{one.partitions_written:,} of them written"
    if one.keys is not None:
        said += f"; {one.keys_moved or 0:,} of {one.keys:,} keys moved to another partition"
    header = ["group", "partitions read", "out of order by key", "stored too early to be seen"]
    rows = [
        [
            group.group,
            f"{group.partitions_read:,}",
            NOTHING if group.out_of_order_by_key is None else f"{group.out_of_order_by_key:,}",
            f"{group.stored_too_early:,}",
        ]
        for group in one.groups
    ]
    return Text(f"{said}\n").append_text(columns(header, rows))
