"""What became of the messages as tables of a page: fates with sums that add up, anomalies, each with the
stories behind its counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kaput.evidence.findings import Anomaly, Findings
from kaput.report.layout import plural
from kaput.scenario.vocabulary import OUTCOMES

_STORED = {
    "0": "stored 0 times",
    "1": "once",
    "n": "several times",
    "unread": "not read back",
    "uncommitted": "not committed",
}
_SELDOM = ("unread", "uncommitted")  # shown where there are any


class Cell(NamedTuple):
    """A count with the stories behind it. `name`: the anomaly that it is, `kind` how it is marked."""

    text: str
    name: str = ""
    kind: str = ""
    examples: Sequence[str] = ()


class Line(NamedTuple):
    """A row of the ledger."""

    name: str
    cells: list[Cell]
    sum: str


class Ledger(NamedTuple):
    """Outcomes by how often they are stored: every cell, and sums that add up, or what does not."""

    names: list[str]
    rows: list[Line]
    sums: list[str]
    total: str
    adds_up: bool
    said: str


# What a message with this outcome, stored so often, is called.
_CALLED = {("acked", "0"): "lost", ("unknown", "1"): "recovered", ("failed", "1"): "ghost"}


def ledger(findings: Findings) -> Ledger:
    """The table of fates."""
    counts: dict[tuple[str, str], int] = {(f.outcome, f.stored): f.count for f in findings.fates}
    shown = [
        key for key in _STORED if key not in _SELDOM or any(s == key and n for (_, s), n in counts.items())
    ]
    rows = [
        Line(
            outcome,
            [_cell(findings, outcome, stored, counts.get((outcome, stored), 0)) for stored in shown],
            f"{sum(counts.get((outcome, stored), 0) for stored in shown):,}",
        )
        for outcome in OUTCOMES
    ]
    sums = [f"{sum(counts.get((outcome, stored), 0) for outcome in OUTCOMES):,}" for stored in shown]
    total, sent = sum(counts.values()), findings.totals.sent
    said = (
        f"The cells add up to the {sent:,} messages that were sent."
        if total == sent
        else f"The cells add up to {total:,}, NOT to the {sent:,} that were sent: this kaput is broken."
    )
    return Ledger([_STORED[key] for key in shown], rows, sums, f"{total:,}", total == sent, said)


def _cell(findings: Findings, outcome: str, stored: str, count: int) -> Cell:
    if not count:
        return Cell("0")
    name = "duplicate" if stored == "n" else _CALLED.get((outcome, stored), "")
    examples = [e.story for a in findings.anomaly(name) for e in a.examples] if name else []
    kind = "loss" if name in ("lost", "ghost") else ""
    # Duplicates' examples are of all outcomes together.
    return Cell(f"{count:,}", name, kind, examples)


class Found(NamedTuple):
    """An anomaly that was found."""

    name: str
    group: str | None
    counted: str
    permitted: str
    forbidden: str
    bad: bool
    cell: Cell


def anomalies(findings: Findings) -> list[Found]:
    """Those that were found at all."""
    return [_found(anomaly) for anomaly in findings.anomalies if anomaly.count]


def _found(anomaly: Anomaly) -> Found:
    causes = ", ".join(f"{cause} {count:,}" for cause, count in anomaly.causes.items() if count)
    copies = plural(anomaly.extra_copies, "extra copy", "extra copies") if anomaly.extra_copies else ""
    said = "; ".join(text for text in (causes, copies) if text)
    stories = [example.story for example in anomaly.examples]
    text = said or (f"{len(stories)} examples" if stories else "")
    if said and stories:
        text = f"{said} ({plural(len(stories), 'example')})"
    forbidden = anomaly.count - anomaly.permitted
    return Found(
        anomaly.name,
        anomaly.group,
        f"{anomaly.count:,}",
        f"{anomaly.permitted:,}",
        f"{forbidden:,}",
        forbidden > 0,
        Cell(text, examples=stories),
    )


def absent(findings: Findings) -> list[str]:
    """The names of those that nothing was found of."""
    found = {a.name for a in findings.anomalies if a.count}
    return [name for name in dict.fromkeys(a.name for a in findings.anomalies) if name not in found]
