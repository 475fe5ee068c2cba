"""Clients: the versions that clusters and clients actually used, and errors that clients met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from kaput.core import counted
from kaput.evidence.findings import Findings
from kaput.evidence.findings_parts import FeatureLevels
from kaput.report.document import Block, Bullets, Paragraph, Section, Table
from kaput.report.sections import JudgedRun


def versions(run: JudgedRun) -> Section | None:
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
        blocks.append(Table(["client", "library", "versions of its requests"], rows, "lll"))
    return Section("Versions that the cluster and its clients used", blocks, detail=True) if blocks else None


def _line(one: FeatureLevels) -> str:
    """`metadata.version 29, transaction.version 2 (0 at the end)`."""
    names = sorted({*one.levels, *one.changed})
    ends = {name: f" ({one.changed[name]} at the end)" for name in one.changed}
    levels = ", ".join(f"{name} {one.levels.get(name, 0)}{ends.get(name, '')}" for name in names)
    return f"{one.cluster}: {levels}" if one.cluster else levels


_SHOWN = 5
_MANY = 0.1  # of what was sent


def refusals(findings: Findings) -> Iterator[str]:
    """Sentences for the head of the report: with which errors many messages were not acknowledged, and many
    transactions not committed.
    """
    found, ended = findings.client_errors, findings.transactions
    every = 0 if ended is None else ended.committed + ended.aborted + ended.unknown
    for what, sent, by_client in (
        (
            "{messages were|message was} not acknowledged",
            findings.totals.sent,
            [one.messages for one in found],
        ),
        (
            "{transactions were|transaction was} not committed",
            every,
            [one.transactions for one in found],
        ),
    ):
        errors = sum(map(Counter, by_client), Counter[str]())
        if errors.total() > _MANY * sent:
            yield f"{counted(errors.total(), what)}, by error: {_counted(errors)}."


def errors(run: JudgedRun) -> Section | None:
    """A row for each kind of client."""
    found = run.findings.client_errors
    columns = {
        "requests that a fault answered with an error": [one.answered for one in found],
        "messages not acknowledged, by error": [one.messages for one in found],
        "transactions not committed, by error": [one.transactions for one in found],
    }
    shown = {title: errors for title, errors in columns.items() if any(errors)}
    rows = [[one.client, *map(_counted, errors)] for one, *errors in zip(found, *shown.values(), strict=True)]
    header = ["client", *shown]
    blocks: list[Block] = [Table(header, rows, "l" * len(header))]
    if any(one.answered for one in found):
        blocks.append(
            Paragraph(
                "What clients did about errors on their own, and errors of members, are not recorded.", "fine"
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
