"""Errors that clients met: answers of faults in the protocol, and of messages that were not acknowledged."""

from __future__ import annotations

from collections.abc import Mapping

from kaput.report.document import Block, Paragraph, Section, Table
from kaput.report.sections import JudgedRun

_SHOWN = 5


def section(run: JudgedRun) -> Section | None:
    """A row for each kind of client."""
    found = run.findings.client_errors
    rows = [[one.client, _counted(one.answered), _counted(one.messages)] for one in found]
    blocks: list[Block] = [
        Table(["client", "requests answered with an error", "messages not acknowledged, by error"], rows)
    ]
    if any(one.answered for one in found):
        blocks.append(
            Paragraph(
                "What clients did about errors on their own, and errors of members, are not recorded.",
                "fine",
            )
        )
    return Section("Errors that clients met", blocks, detail=True) if rows else None


def _counted(errors: Mapping[str, int]) -> str:
    """`Produce NOT_LEADER_OR_FOLLOWER 3, ...`: the most frequent ones first."""
    order = sorted(errors.items(), key=lambda each: (-each[1], each[0]))
    parts = [f"{name} {count:,}" for name, count in order[:_SHOWN]]
    if len(order) > _SHOWN:
        parts.append(f"{len(order) - _SHOWN:,} more")
    return ", ".join(parts) or "-"
