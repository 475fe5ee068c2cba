"""Findings as Markdown, to be pasted into an issue or a pull request: short, the answer first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kaput.evidence.findings import Findings
from kaput.report import details, ledger, provenance
from kaput.report.headline import headline
from kaput.report.leaders import leader_sentences
from kaput.report.published import compared_with_published
from kaput.scenario.model import Scenario

_EXAMPLES = 3
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&@])")


def to_markdown(findings: Findings, scenario: Scenario | None = None) -> str:
    """GitHub's Markdown; whatever comes from data is escaped."""
    return "\n".join(_lines(findings, scenario)).rstrip() + "\n"


def _lines(findings: Findings, scenario: Scenario | None) -> Iterator[str]:
    head = headline(findings)
    yield f"### {head.verdict}: {_plain(findings.run.scenario)}\n"
    yield f"{_plain(head.answer)}\n"
    yield f"{_plain(head.summary)}\n"
    if head.why:
        yield f"{_plain(head.why)}\n"
    yield from _table(["", ""], [[_plain(figure.name), figure.value] for figure in head.figures])
    yield from _bullets("Why", [*findings.reasons, *findings.notes])
    faults = [f"{fault.name} {fault.bit}: {fault.proof}" for fault in details.faults(findings)]
    yield from _bullets("Faults", faults)
    yield from _bullets("Changes of leader", leader_sentences(findings))
    fates = ledger.ledger(findings)
    rows = [[line.name, *(cell.text for cell in line.cells), line.sum] for line in fates.rows]
    yield "**Fates**\n"
    yield from _table(["outcome", *fates.names, "sum"], [*rows, ["sum", *fates.sums, fates.total]])
    yield f"{fates.said}\n"
    found = [
        [_plain(a.name + (f" in group {a.group}" if a.group else "")), a.counted, a.permitted, a.forbidden]
        for a in ledger.anomalies(findings)
    ]
    if found:
        yield "**Anomalies**\n"
        yield from _table(["anomaly", "count", "permitted", "forbidden"], found)
    examples = [story for a in ledger.anomalies(findings) for story in a.cell.examples[:_EXAMPLES]]
    if examples:
        yield "<details><summary>Examples</summary>\n"
        yield from (f"- {_plain(story)}" for story in examples)
        yield "\n</details>\n"
    yield from _bullets("Comparison with published results", compared_with_published(findings))
    yield f"```\n{provenance.again(findings, scenario).replace('```', '')}\n```"


def _bullets(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield f"**{title}**\n"
        yield from (f"- {_plain(sentence)}" for sentence in sentences)
        yield ""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "| --- |" + " ---: |" * (len(header) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def _plain(text: str) -> str:
    """Text that means nothing to Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
