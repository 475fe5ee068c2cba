"""Versions that the cluster and its clients actually used: feature levels and request versions."""

from __future__ import annotations

from kaput.evidence.findings_parts import FeatureLevels
from kaput.report.document import Block, Bullets, Section, Table
from kaput.report.sections import JudgedRun


def section(run: JudgedRun) -> Section | None:
    """A line for each cluster, and a row for each kind of client."""
    found = run.findings
    blocks: list[Block] = []
    if any(one.levels for one in found.features):
        blocks.append(Bullets([_line(one) for one in found.features]))
    if found.requests:
        rows = [
            [
                one.client,
                "; ".join(one.libraries),
                ", ".join(f"{api} {'/'.join(map(str, versions))}" for api, versions in one.requests.items()),
            ]
            for one in found.requests
        ]
        blocks.append(Table(["client", "library", "versions of its requests"], rows))
    return Section("Versions that the cluster and its clients used", blocks, detail=True) if blocks else None


def _line(one: FeatureLevels) -> str:
    """`metadata.version 29, transaction.version 2 (0 at the end)`."""
    names = sorted({*one.levels, *one.changed})
    ends = {name: f" ({one.changed[name]} at the end)" for name in one.changed}
    levels = ", ".join(f"{name} {one.levels.get(name, 0)}{ends.get(name, '')}" for name in names)
    return f"{one.cluster}: {levels}" if one.cluster else levels
