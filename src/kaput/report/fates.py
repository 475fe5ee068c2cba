"""The fates document as text: one table for the run, one for each group."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kaput.evidence.fates import Fates
from kaput.evidence.findings import Fate, GroupFate
from kaput.report.layout import columns, plural


def render_fates(found: Fates) -> Text:
    """One run. Every message is in one line of each table."""
    text = Text.assemble((f"{found.run.scenario}, run {found.run.id}", "bold"))
    text.append(f": {plural(found.totals.sent, 'message')} sent, not judged\n")
    text.append_text(_table(found.fates, ["times stored"]))
    for group in found.groups:
        text.append(f"\n{group.group}\n", style="bold")
        text.append_text(_table(group.fates, ["times stored", "times delivered"]))
    return text


def _table(fates: Sequence[Fate], times: list[str]) -> Text:
    rows = []
    for fate in fates:
        delivered = [fate.delivered] if isinstance(fate, GroupFate) else []
        rows.append([fate.outcome, fate.stored, *delivered, f"{fate.count:,}"])
    return columns(["outcome", *times, "messages"], rows, 1 + len(times))
